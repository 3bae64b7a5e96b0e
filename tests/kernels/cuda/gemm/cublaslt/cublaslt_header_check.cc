// SPDX-License-Identifier: Apache-2.0
// Compares kernels/cuda/gemm/cublaslt/cublaslt_api.h with the header that it restates; compiles only while they agree.
// Built where that header is installed; one older than the library that the module takes (12.9) lacks some constants
// and says nothing.
#include <cublasLt.h>

#include <cstddef>

#include "kernels/cuda/gemm/cublaslt/cublaslt_api.h"

#if CUBLAS_VER_MAJOR * 100 + CUBLAS_VER_MINOR >= 1209

namespace dunlin::kernels::cuda {
namespace {

static_assert(kCudaR32F == CUDA_R_32F && kCudaR16F == CUDA_R_16F && kCudaR16BF == CUDA_R_16BF);
static_assert(kCudaR8FE4M3 == CUDA_R_8F_E4M3 && kCublasCompute32F == CUBLAS_COMPUTE_32F && kCublasOpT == CUBLAS_OP_T);
static_assert(kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA && kDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kDescBiasPointer == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(kDescBiasDataType == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(kDescAScalePointer == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(kDescBScalePointer == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(kDescAScaleMode == CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
static_assert(kDescBScaleMode == CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
static_assert(kDescFastAccum == CUBLASLT_MATMUL_DESC_FAST_ACCUM);
static_assert(kScaleOuterVec32F == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
static_assert(kEpilogueDefault == CUBLASLT_EPILOGUE_DEFAULT && kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(kEpilogueGelu == CUBLASLT_EPILOGUE_GELU && kEpilogueGeluBias == CUBLASLT_EPILOGUE_GELU_BIAS);
static_assert(kReductionSchemesAll == CUBLASLT_REDUCTION_SCHEME_MASK);
static_assert(kLayoutCols == CUBLASLT_MATRIX_LAYOUT_COLS);
static_assert(kPrefMaxWorkspaceBytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(kPrefReductionSchemeMask == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(kPrefMinAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(kPrefMinAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(kPrefMinAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(kPrefMinAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(CUBLASLT_REDUCTION_SCHEME_NONE == 0 && CUBLAS_STATUS_SUCCESS == 0);
static_assert(sizeof(MatmulAlgo) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(MatmulHeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(MatmulHeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(MatmulHeuristicResult, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(sizeof(cublasStatus_t) == sizeof(CublasStatus) && sizeof(cudaDataType) == sizeof(int32_t));

// A function of the header accepts what the table's entry passes: as many arguments, of the same sizes.
template <typename Entry, typename Function>
struct SameShape;
template <typename R1, typename... A, typename R2, typename... B>
requires(sizeof...(A) == sizeof...(B)) struct SameShape<R1 (*)(A...), R2 (*)(B...)> {
  static constexpr bool value = sizeof(R1) == sizeof(R2) && ((sizeof(A) == sizeof(B)) && ...);
};
static_assert(SameShape<decltype(CublasLt::GetVersion), decltype(&cublasLtGetVersion)>::value);
static_assert(SameShape<decltype(CublasLt::Create), decltype(&cublasLtCreate)>::value);
static_assert(SameShape<decltype(CublasLt::Destroy), decltype(&cublasLtDestroy)>::value);
static_assert(SameShape<decltype(CublasLt::MatmulDescCreate), decltype(&cublasLtMatmulDescCreate)>::value);
static_assert(SameShape<decltype(CublasLt::MatmulDescDestroy), decltype(&cublasLtMatmulDescDestroy)>::value);
static_assert(SameShape<decltype(CublasLt::MatmulDescSetAttribute), decltype(&cublasLtMatmulDescSetAttribute)>::value);
static_assert(SameShape<decltype(CublasLt::MatrixLayoutCreate), decltype(&cublasLtMatrixLayoutCreate)>::value);
static_assert(SameShape<decltype(CublasLt::MatrixLayoutDestroy), decltype(&cublasLtMatrixLayoutDestroy)>::value);
static_assert(
    SameShape<decltype(CublasLt::MatrixLayoutSetAttribute), decltype(&cublasLtMatrixLayoutSetAttribute)>::value);
static_assert(SameShape<decltype(CublasLt::MatmulPreferenceCreate), decltype(&cublasLtMatmulPreferenceCreate)>::value);
static_assert(
    SameShape<decltype(CublasLt::MatmulPreferenceDestroy), decltype(&cublasLtMatmulPreferenceDestroy)>::value);
static_assert(SameShape<decltype(CublasLt::MatmulPreferenceSetAttribute),
                        decltype(&cublasLtMatmulPreferenceSetAttribute)>::value);
static_assert(SameShape<decltype(CublasLt::MatmulAlgoGetHeuristic), decltype(&cublasLtMatmulAlgoGetHeuristic)>::value);
static_assert(SameShape<decltype(CublasLt::MatmulAlgoCheck), decltype(&cublasLtMatmulAlgoCheck)>::value);
static_assert(SameShape<decltype(CublasLt::Matmul), decltype(&cublasLtMatmul)>::value);

}  // namespace
}  // namespace dunlin::kernels::cuda

#endif
