// How a product of a linear layer is put to cuBLASLt: D^T = A^T B with the weight as A, so that out [M, N], row-major,
// is D, column-major, and M is any number. Products of one form share a plan. Host code alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/api/gemm.h"

namespace dunlin::kernels::cuda {

struct GemmForm {
  Precision precision;
  int64_t out_features;  // as the weight has them
  int64_t in_features;
  int64_t out_stride;  // of D, elements; a multiple of 4 in FP8
  bool bias;           // in the epilogue; never in FP8, and where it stands on 16 bytes
  bool residual;       // beta = 1
  // In the epilogue, behind the bias; D is then the input of another product, in the precision's own type, the bias
  // too. Else D and bias are FP32.
  std::optional<ActivationKind> activation = std::nullopt;
  // 0: one algorithm for any number of rows, without split-K. Else the rows that the algorithm is chosen for, as it is.
  int32_t rows = 0;
  bool operator==(const GemmForm&) const = default;
};

// FP8 writes whole groups of 16 outputs at addresses of 16 bytes, and its scales stand on 16 bytes. Where `out` has no
// room or another stride, or the rows begin between such addresses, the product goes to a staging area of PaddedRows(N)
// floats a row and a kernel copies it.
inline constexpr int64_t kScaleRows = 4;  // rows whose scales share 16 bytes
bool NeedsStaging(const GemmParams& params, int64_t first_row);

// Whether a product may end in params.activation and fill params.next: as cuBLASLt's epilogues do, whose GELU is the
// tanh approximation; without columns of padding, which nobody would zero; of a bias that the area for it holds.
inline constexpr int64_t kActivatedColumnsMax = int64_t{1} << 17;
bool TakesActivation(const GemmParams& params);

// The form of num_rows of a call's rows. What it leaves out, bias or residual, is added afterwards. A product that ends
// in an activation is one of any number of rows: so what GemmPlans::Has says of one call holds for the next.
GemmForm FormOf(const GemmParams& params, bool staged, int32_t num_rows);

// A line that names a form whose algorithm is chosen at num_rows rows, and no other.
std::string NameOf(const GemmForm& form, int32_t num_rows);

}  // namespace dunlin::kernels::cuda
