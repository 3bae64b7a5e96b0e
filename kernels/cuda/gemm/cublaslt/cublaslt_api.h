// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt that the GEMMs call, as a table of functions. The library is opened at run time, so the module
// neither links nor ships it and works with any version from 12.9 on.
// Source: cublasLt.h and cublas_api.h 13.1, whose names these are. Values and signatures are stable across versions;
// tests/kernels/cuda/gemm/cublaslt/cublaslt_header_check.cc compares them with that header where it is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::kernels::cuda {

using CublasStatus = int32_t;  // 0 is success
inline constexpr size_t kCublasVersionMin = 120900;

// cudaDataType, cublasComputeType_t, cublasOperation_t.
inline constexpr int32_t kCudaR32F = 0;
inline constexpr int32_t kCudaR16F = 2;
inline constexpr int32_t kCudaR16BF = 14;
inline constexpr int32_t kCudaR8FE4M3 = 28;
inline constexpr int32_t kCublasCompute32F = 68;  // FP32 inputs stay FP32: TF32 is a different compute type
inline constexpr int32_t kCublasOpT = 1;

// cublasLtMatmulDescAttributes_t
inline constexpr int32_t kDescTransA = 3;
inline constexpr int32_t kDescEpilogue = 7;
inline constexpr int32_t kDescBiasPointer = 8;
inline constexpr int32_t kDescAScalePointer = 17;
inline constexpr int32_t kDescBScalePointer = 18;
inline constexpr int32_t kDescFastAccum = 25;
inline constexpr int32_t kDescBiasDataType = 26;
inline constexpr int32_t kDescAScaleMode = 31;
inline constexpr int32_t kDescBScaleMode = 32;
inline constexpr int32_t kScaleOuterVec32F = 3;  // cublasLtMatmulMatrixScale_t
inline constexpr int32_t kEpilogueDefault = 1;   // cublasLtEpilogue_t
inline constexpr int32_t kEpilogueBias = 4;
inline constexpr int32_t kEpilogueGelu = 32;  // the tanh approximation
inline constexpr int32_t kEpilogueGeluBias = 36;
// cublasLtMatrixLayoutAttribute_t
inline constexpr int32_t kLayoutCols = 3;
// cublasLtMatmulPreferenceAttributes_t
inline constexpr int32_t kPrefMaxWorkspaceBytes = 1;
inline constexpr int32_t kPrefReductionSchemeMask = 3;
inline constexpr int32_t kPrefMinAlignmentA = 5;  // bytes, uint32_t; 256 unless set
inline constexpr int32_t kPrefMinAlignmentB = 6;
inline constexpr int32_t kPrefMinAlignmentC = 7;
inline constexpr int32_t kPrefMinAlignmentD = 8;
inline constexpr uint32_t kReductionSchemesAll = 7;  // cublasLtReductionScheme_t

struct CublasLtContext;
struct MatmulDesc;
struct MatrixLayout;
struct MatmulPreference;
struct MatmulAlgo {
  uint64_t data[8];
};
struct MatmulHeuristicResult {
  MatmulAlgo algo;
  size_t workspace_bytes;
  CublasStatus state;
  float waves_count;
  int32_t reserved[4];
};

// One entry per function, named without the prefix cublasLt. stream: a cudaStream_t.
struct CublasLt {
  size_t (*GetVersion)();
  CublasStatus (*Create)(CublasLtContext** handle);
  CublasStatus (*Destroy)(CublasLtContext* handle);
  CublasStatus (*MatmulDescCreate)(MatmulDesc** desc, int32_t compute_type, int32_t scale_type);
  CublasStatus (*MatmulDescDestroy)(MatmulDesc* desc);
  CublasStatus (*MatmulDescSetAttribute)(MatmulDesc* desc, int32_t attribute, const void* value, size_t bytes);
  CublasStatus (*MatrixLayoutCreate)(MatrixLayout** layout, int32_t type, uint64_t rows, uint64_t cols, int64_t ld);
  CublasStatus (*MatrixLayoutDestroy)(MatrixLayout* layout);
  CublasStatus (*MatrixLayoutSetAttribute)(MatrixLayout* layout, int32_t attribute, const void* value, size_t bytes);
  CublasStatus (*MatmulPreferenceCreate)(MatmulPreference** preference);
  CublasStatus (*MatmulPreferenceDestroy)(MatmulPreference* preference);
  CublasStatus (*MatmulPreferenceSetAttribute)(MatmulPreference* preference, int32_t attribute, const void* value,
                                               size_t bytes);
  CublasStatus (*MatmulAlgoGetHeuristic)(CublasLtContext* handle, MatmulDesc* desc, MatrixLayout* a, MatrixLayout* b,
                                         MatrixLayout* c, MatrixLayout* d, MatmulPreference* preference,
                                         int32_t requested, MatmulHeuristicResult* results, int32_t* returned);
  CublasStatus (*MatmulAlgoCheck)(CublasLtContext* handle, MatmulDesc* desc, MatrixLayout* a, MatrixLayout* b,
                                  MatrixLayout* c, MatrixLayout* d, const MatmulAlgo* algo,
                                  MatmulHeuristicResult* result);
  CublasStatus (*Matmul)(CublasLtContext* handle, MatmulDesc* desc, const void* alpha, const void* a,
                         MatrixLayout* a_layout, const void* b, MatrixLayout* b_layout, const void* beta, const void* c,
                         MatrixLayout* c_layout, void* d, MatrixLayout* d_layout, const MatmulAlgo* algo,
                         void* workspace, size_t workspace_bytes, void* stream);
};

}  // namespace dunlin::kernels::cuda
