// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/check_problem.h"

#include <cmath>

#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/ops/row_target.h"

namespace dunlin::kernels::cuda {
namespace {

// In [-1, 1], from the top 24 bits of a hash (SplitMix64).
float ValueAt(uint64_t seed, uint64_t index) {
  uint64_t x = (seed << 40) + index + 0x9E3779B97F4A7C15U;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9U;
  x = (x ^ x >> 27) * 0x94D049BB133111EBU;
  x ^= x >> 31;
  return static_cast<float>(x >> 40) * 0x1p-23F - 1.0F;
}

std::vector<float> ValuesOf(uint64_t seed, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = ValueAt(seed, i);
  return values;
}

// Padding is zero, as the device writes it.
std::vector<unsigned char> MatrixOf(uint64_t seed, Precision precision, int64_t rows) {
  std::vector<unsigned char> bytes(static_cast<size_t>(MatrixBytes(precision, rows, CheckProblem::kDepth, 0)));
  MatrixView view{bytes.data(), precision, rows, CheckProblem::kDepth};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < CheckProblem::kDepth; ++k) {
      const Float4 value{{ValueAt(seed, static_cast<uint64_t>(row * CheckProblem::kDepth + k))}};
      if (precision == Precision::kFp8) {
        StoreValues<Precision::kFp8>(view.row(row), k, 1, value, 1.0F);
      } else {
        StoreAs(precision, view.row(row), k, 1, value);
      }
    }
    if (precision == Precision::kFp8)
      view.scale(row, 0) = 0.5F + 0.5F * std::fabs(ValueAt(seed + 1, static_cast<uint64_t>(row)));
  }
  return bytes;
}

Precision PrecisionOf(const GemmKernel& kernel) {
  const auto takes = [&](GemmOperand operand) { return (kernel.operands >> static_cast<unsigned>(operand) & 1U) != 0; };
  if (takes(GemmOperand::kBf16)) return Precision::kBf16;
  return takes(GemmOperand::kFp16) ? Precision::kFp16 : Precision::kFp8;
}

}  // namespace

CheckProblem::CheckProblem(const GemmKernel& kernel)
    : precision(PrecisionOf(kernel)),
      weight(MatrixOf(1, precision, kColumns)),
      in(MatrixOf(3, precision, kRows)),
      bias(ValuesOf(5, kColumns)),
      residual(ValuesOf(6, kOuts)) {}

PackedWeight CheckProblem::Weight(void* data) const {
  return {.data = data, .precision = precision, .out_features = kColumns, .in_features = kDepth};
}

Activation CheckProblem::Input(void* data) const {
  Activation input{.data = data, .precision = precision, .capacity_rows = kRows};
  input.columns = kDepth;
  return input;
}

bool ChecksAgree(Precision precision, std::span<const float> expected, std::span<const float> out) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::fabs(out[i] - expected[i]) <= CheckToleranceOf(precision))) return false;
  }
  return out.size() == expected.size();
}

}  // namespace dunlin::kernels::cuda
