// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/check_problem.h"

#include <cmath>

#include "kernels/cuda/gemm/coded_weight.h"
#include "kernels/cuda/ops/element_ops.h"
#include "kernels/cuda/ops/row_sources.h"
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
std::vector<unsigned char> MatrixOf(uint64_t seed, Precision precision, int32_t scale_block, int64_t rows) {
  const int64_t size = MatrixBytes(precision, rows, CheckProblem::kDepth, scale_block);
  std::vector<unsigned char> bytes(static_cast<size_t>(size));
  const MatrixView view{bytes.data(), precision, rows, CheckProblem::kDepth, scale_block};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < CheckProblem::kDepth; ++k) {
      const Float4 value{{ValueAt(seed, static_cast<uint64_t>(row * CheckProblem::kDepth + k))}};
      if (precision == Precision::kFp8) {
        StoreValues<Precision::kFp8>(view.row(row), k, 1, value, 1.0F);
      } else {
        StoreAs(precision, view.row(row), k, 1, value);
      }
    }
    for (int64_t k = 0; precision == Precision::kFp8 && k < CheckProblem::kDepth; k += kScaleBlock) {
      const int64_t index = scale_block == 0 ? row : k * rows + row;
      view.scale(row, k) = 0.5F + 0.5F * std::fabs(ValueAt(seed + 1, static_cast<uint64_t>(index)));
    }
  }
  return bytes;
}

bool Takes(unsigned operands, GemmOperand operand) {
  return (operands >> static_cast<unsigned>(operand) & 1U) != 0;
}

// Of int4: codes, and scales of up to 1/16 with zero points.
std::vector<unsigned char> CodesOf(uint64_t seed) {
  CodedView view{nullptr, CodedFormatOf(WeightFormat::kInt4), CheckProblem::kColumns, CheckProblem::kDepth};
  std::vector<unsigned char> bytes(static_cast<size_t>(view.bytes()));
  view.data = bytes.data();
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(128.0F + 127.0F * ValueAt(seed, i));
  }
  for (int64_t tile = 0; tile < view.tiles(); ++tile) {
    for (int64_t row = 0; row < view.rows; ++row) {
      auto* words = reinterpret_cast<uint16_t*>(view.numbers(row, tile));
      for (int32_t group = 0; group < view.format.groups(); ++group) {
        const auto index = static_cast<uint64_t>((tile * view.rows + row) * 2 + group);
        words[group] = ToFp16(8.0F + 7.0F * ValueAt(seed + 1, index));
      }
    }
  }
  return bytes;
}

Precision PrecisionOf(unsigned operands) {
  if (Takes(operands, GemmOperand::kBf16) || Takes(operands, GemmOperand::kCodes)) return Precision::kBf16;
  return Takes(operands, GemmOperand::kFp16) ? Precision::kFp16 : Precision::kFp8;
}

}  // namespace

CheckProblem::CheckProblem(unsigned operands, uint64_t seed)
    : precision(PrecisionOf(operands)),
      scale_block(Takes(operands, GemmOperand::kFp8Blocks) ? kScaleBlock : 0),
      format(Takes(operands, GemmOperand::kCodes) ? WeightFormat::kInt4 : Traits(precision).format),
      weight(IsCoded(format) ? CodesOf(seed + 1) : MatrixOf(seed + 1, precision, scale_block, kColumns)),
      in(MatrixOf(3, precision, scale_block, kRows)),
      bias(ValuesOf(seed + 5, kColumns)),
      residual(ValuesOf(seed + 6, kOuts)) {}

CheckProblem CheckProblem::Expanded() const {
  CheckProblem expanded = *this;
  const CodedFormat coded = CodedFormatOf(format);
  if (coded.group == 0) return expanded;
  expanded.format = Traits(Precision::kBf16).format;
  expanded.weight.assign(static_cast<size_t>(MatrixBytes(Precision::kBf16, kColumns, kDepth, 0)), 0);
  std::vector<unsigned char> codes = weight;
  const ExpandCall call{{codes.data(), coded, kColumns, kDepth}, 0, kColumns, expanded.weight.data()};
  for (int64_t half = 0; half < call.halves(); ++half) ExpandHalfTile(call, half);
  return expanded;
}

PackedWeight CheckProblem::Weight(void* data) const {
  return {.data = data,
          .precision = precision,
          .out_features = kColumns,
          .in_features = kDepth,
          .scale_block = scale_block,
          .format = format};
}

Activation CheckProblem::Input(void* data) const {
  Activation input{.data = data, .precision = precision, .capacity_rows = kRows};
  input.columns = kDepth;
  input.scale_block = scale_block;
  return input;
}

RotateAndStoreKvParams CheckProblem::Heads(float* out) const {
  constexpr int32_t kHeadDim = 16;
  RotateAndStoreKvParams heads{};
  heads.qkv = out;
  heads.num_heads = static_cast<int32_t>(kColumns) / kHeadDim;
  heads.layout.shape.head_dim = kHeadDim;
  heads.layout.shape.v_head_dim = kHeadDim;
  return heads;
}

GroupedCheckProblem::GroupedCheckProblem(unsigned operands) {
  for (int32_t group = 0; group < kGroups; ++group) {
    const CheckProblem& problem = problems.emplace_back(operands, 10 * static_cast<uint64_t>(group));
    weights.insert(weights.end(), problem.weight.begin(), problem.weight.end());
    biases.insert(biases.end(), problem.bias.begin(), problem.bias.end());
  }
}

std::vector<BiasedWeight> GroupedCheckProblem::Weights(void* data, const float* bias, bool gated) const {
  std::vector<BiasedWeight> list;
  for (size_t group = 0; group < problems.size(); ++group) {
    const CheckProblem& problem = problems[group];
    list.push_back({problem.Weight(static_cast<unsigned char*>(data) + group * problem.weight.size()),
                    bias + group * problem.bias.size()});
    list.back().weight.gated = gated;
  }
  return list;
}

std::vector<float> GatesOf(std::span<const float> rows) {
  constexpr int64_t kHalf = CheckProblem::kColumns / 2;
  std::vector<float> gates;
  for (int64_t row = 0; row < CheckProblem::kRows; ++row) {
    const float* of_row = rows.data() + row * CheckProblem::kColumns;
    for (int64_t n = 0; n < kHalf; ++n) {
      gates.push_back(ApplyActivation(ActivationKind::kSilu, of_row[n]) * of_row[kHalf + n]);
    }
  }
  return gates;
}

std::vector<float> StoredGates(std::span<const unsigned char> next, Precision precision) {
  constexpr int64_t kHalf = CheckProblem::kColumns / 2;
  std::vector<float> gates;
  for (int64_t row = 0; row < CheckProblem::kRows; ++row) {
    const unsigned char* of_row = next.data() + row * RowBytes(precision, kHalf);
    for (int64_t n = 0; n < kHalf; ++n) gates.push_back(PackedElement(precision, of_row, n));
  }
  return gates;
}

bool GatesAgree(std::span<const float> expected, std::span<const float> stored) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::fabs(stored[i] - expected[i]) <= 0x1p-4F + 0x1p-7F * std::fabs(expected[i]))) return false;
  }
  return stored.size() == expected.size();
}

bool ChecksAgree(Precision precision, std::span<const float> expected, std::span<const float> out) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::fabs(out[i] - expected[i]) <= CheckToleranceOf(precision))) return false;
  }
  return out.size() == expected.size();
}

}  // namespace dunlin::kernels::cuda
