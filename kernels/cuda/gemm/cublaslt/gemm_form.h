// SPDX-License-Identifier: Apache-2.0
// How a GEMM is described to cuBLASLt: D^T = A^T B with the weight as A, so that `out` [M, N] row-major is D
// column-major and M is arbitrary. GEMMs of one form share a plan. Host code.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/api/gemm.h"

namespace dunlin::kernels::cuda {

struct GemmForm {
  Precision precision;
  int64_t out_features;  // as the weight's
  int64_t in_features;
  int64_t out_stride;  // of D, elements; a multiple of 4 in FP8
  bool bias;           // in the epilogue; never in FP8; 16-byte aligned
  bool residual;       // beta = 1
  // Tanh-GELU in the epilogue, after the bias. D is then the next GEMM's input: D and bias have the precision's dtype.
  // Otherwise both are FP32.
  bool gelu = false;
  // FP8: partial sums stay in the tensor cores' accumulator, which keeps 14 bits, instead of being added to FP32 ones.
  bool fast_accumulation = false;
  uint32_t alignment = 16;  // of every row of D and C, bytes: 4, 8 or 16
  // 0: one algorithm for any number of rows, without split-K. Otherwise the algorithm is chosen for this number of
  // rows.
  int32_t rows = 0;
  bool operator==(const GemmForm&) const = default;
};

// cuBLASLt's FP8 kernels write groups of 16 outputs at 16-byte aligned addresses and need 16-byte aligned scales. Where
// `out` has no padding or another stride, or the first row's scale is not aligned, the GEMM writes to the staging area,
// PaddedRows(N) floats per row, and a kernel copies from it.
inline constexpr int64_t kScaleRows = 4;  // rows whose scales share 16 bytes
bool NeedsStaging(const GemmParams& params, int64_t first_row);

// Whether cuBLASLt can fuse params.activation and fill params.next: tanh-GELU (the epilogues' ReLU turns NaN into 0,
// unlike the CPU's), no padding columns, which nothing would zero, and a bias that fits its buffer. Not with integer
// codes, whose weights may take several calls.
inline constexpr int64_t kActivatedColumnsMax = int64_t{1} << 17;
bool TakesActivation(const GemmParams& params);

// The form of num_rows rows of a call. A bias or residual that it leaves out is added afterwards. A fused activation is
// independent of the number of rows, so GemmPlans::Has of one call holds for the next.
GemmForm FormOf(const GemmParams& params, bool staged, int32_t num_rows);

// A line that names the form and the number of rows that its algorithm is chosen for.
std::string NameOf(const GemmForm& form, int32_t num_rows);

}  // namespace dunlin::kernels::cuda
