// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/interleaved_experts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kBlock = 32;     // elements of MXFP4 that share a scale
constexpr int kMaxExponent = 252;  // of a scale, biased: 6 * 2^125 is the largest product that FP32 holds
constexpr float kE2M1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                             -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

absl::Status Unexpected(const TensorInfo& tensor, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "' is ", tensor.dtype->name, " ",
                                                 ShapeText(tensor.shape), "; must be ", expected));
}

// The shape of one expert of a stack.
absl::StatusOr<std::vector<int64_t>> ShapeOfStacked(const TensorInfo& stack, int64_t num_experts) {
  const bool plain = stack.dtype->loadable.has_value() && stack.dtype->loadable != kernels::DType::kF8E4M3;
  const size_t rank = stack.shape.size();
  if (!plain || rank < 2 || rank > 3 || stack.shape[0] != num_experts) {
    return Unexpected(stack, absl::StrCat("a stack of ", num_experts, " experts in BF16, F16 or F32"));
  }
  return std::vector<int64_t>(stack.shape.rbegin(), stack.shape.rend() - 1);  // a matrix is stored transposed
}

// The bytes of a row's blocks may be one dimension or two.
absl::StatusOr<std::vector<int64_t>> ShapeOfMxfp4(const TensorInfo& blocks, const TensorInfo& scales,
                                                  int64_t num_experts) {
  const std::vector<int64_t>& shape = blocks.shape;
  const bool some = std::none_of(shape.begin(), shape.end(), [](int64_t side) { return side < 1; });
  const bool bytes =
      some && blocks.dtype->bits == 8 && scales.dtype->bits == 8 && shape.size() >= 3 && shape.size() <= 4;
  const int64_t row_bytes = !bytes ? 0 : shape.size() == 4 ? shape[2] * shape[3] : shape[2];
  if (!bytes || shape[0] != num_experts || row_bytes % (kBlock / 2) != 0) {
    return Unexpected(blocks, absl::StrCat("U8 [", num_experts, ", out_features, in_features / 32, 16]"));
  }
  const std::vector<int64_t> of_scales = {shape[0], shape[1], row_bytes / (kBlock / 2)};
  if (scales.shape != of_scales) return Unexpected(scales, absl::StrCat("U8 ", ShapeText(of_scales)));
  return std::vector<int64_t>{shape[1], row_bytes * 2};
}

// Where row r of an expert's matrix goes whose gate and up rows alternate in the file.
int64_t SplitRow(int64_t row, int64_t num_rows, bool alternates) {
  return alternates ? row / 2 + row % 2 * (num_rows / 2) : row;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> InterleavedExperts::Open(std::unique_ptr<TensorSource> stored,
                                                                       const std::vector<ExpertStack>& stacks,
                                                                       int32_t num_experts, bool alternating) {
  std::unique_ptr<InterleavedExperts> experts(new InterleavedExperts(std::move(stored), alternating));
  for (const ExpertStack& names : stacks) {
    if (absl::Status status = experts->AddStack(names, num_experts); !status.ok()) return status;
  }
  return experts;
}

absl::Status InterleavedExperts::AddStack(const ExpertStack& names, int32_t num_experts) {
  const TensorInfo* scales = nullptr;
  const TensorInfo* stack = stored().Find(names.stack);
  if (stack == nullptr) {
    stack = stored().Find(absl::StrCat(names.stack, "_blocks"));
    scales = stored().Find(absl::StrCat(names.stack, "_scales"));
    if (stack == nullptr || scales == nullptr) return absl::OkStatus();
  }
  const absl::StatusOr<std::vector<int64_t>> shape =
      scales == nullptr ? ShapeOfStacked(*stack, num_experts) : ShapeOfMxfp4(*stack, *scales, num_experts);
  if (!shape.ok()) return shape.status();
  const bool alternates = alternating_ && names.stack.find("gate_up") != std::string::npos;
  if (alternates && shape->front() % 2 != 0) return Unexpected(*stack, "gate and up rows, an even number");
  const TensorDType& dtype = scales == nullptr ? *stack->dtype : TensorDTypeOf(kernels::DType::kBF16);
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    std::string name = absl::StrReplaceAll(names.expert, {{"@", absl::StrCat(expert)}});
    if (Derives(name)) continue;
    Derive(std::move(name), dtype, *shape, *stack);
    experts_.push_back({.scales = scales, .index = expert, .alternates = alternates});
  }
  Hide(scales);
  return absl::OkStatus();
}

// The stored matrix is [in_features, out_features], a bias [out_features] the case of one input.
absl::StatusOr<std::vector<std::byte>> InterleavedExperts::ReadStacked(size_t index) const {
  const Expert& expert = experts_[index];
  const std::vector<int64_t>& shape = Info(index).shape;
  const int64_t rows = shape[0];
  const int64_t columns = shape.size() == 2 ? shape[1] : 1;
  const size_t element = Info(index).dtype->bits / 8;
  std::vector<std::byte> stacked(Info(index).end);
  absl::Status status = stored().Read(Source(index), static_cast<uint64_t>(expert.index) * stacked.size(), stacked);
  if (!status.ok()) return status;
  std::vector<std::byte> bytes(stacked.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t to = SplitRow(row, rows, expert.alternates) * columns;
    for (int64_t column = 0; column < columns; ++column) {
      std::memcpy(bytes.data() + static_cast<size_t>(to + column) * element,
                  stacked.data() + static_cast<size_t>(column * rows + row) * element, element);
    }
  }
  return bytes;
}

absl::StatusOr<std::vector<std::byte>> InterleavedExperts::ReadMxfp4(size_t index) const {
  const Expert& expert = experts_[index];
  const int64_t rows = Info(index).shape[0];
  const int64_t columns = Info(index).shape[1];
  const auto count = static_cast<size_t>(rows * columns);
  std::vector<std::byte> codes(count / 2);
  std::vector<std::byte> scales(count / kBlock);
  const auto before = static_cast<uint64_t>(expert.index);  // experts
  absl::Status status = stored().Read(Source(index), before * codes.size(), codes);
  if (status.ok()) status = stored().Read(*expert.scales, before * scales.size(), scales);
  if (!status.ok()) return status;
  std::vector<std::byte> bytes(count * sizeof(uint16_t));
  for (int64_t row = 0; row < rows; ++row) {
    const auto to = static_cast<size_t>(SplitRow(row, rows, expert.alternates) * columns);
    for (int64_t column = 0; column < columns; ++column) {
      const auto at = static_cast<size_t>(row * columns + column);
      const int exponent = std::to_integer<int>(scales[at / kBlock]);
      if (exponent > kMaxExponent) {
        return absl::InvalidArgumentError(absl::StrCat(stored().FileOf(*expert.scales), ": tensor '",
                                                       expert.scales->name, "' has ", exponent, " in row ", row,
                                                       "; limit of an MXFP4 scale is ", kMaxExponent));
      }
      const int pair = std::to_integer<int>(codes[at / 2]);
      const float value = std::ldexp(kE2M1[at % 2 == 0 ? pair & 15 : pair >> 4], exponent - 127);
      const uint16_t bits = kernels::FloatToBf16(value);
      std::memcpy(bytes.data() + (to + static_cast<size_t>(column)) * sizeof(bits), &bits, sizeof(bits));
    }
  }
  return bytes;
}

absl::Status InterleavedExperts::ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const {
  std::shared_ptr<const std::vector<std::byte>> bytes;
  {
    const MutexLock lock(&mutex_);
    if (converted_ != index) {
      absl::StatusOr<std::vector<std::byte>> converted =
          experts_[index].scales == nullptr ? ReadStacked(index) : ReadMxfp4(index);
      if (!converted.ok()) return converted.status();
      bytes_ = std::make_shared<const std::vector<std::byte>>(*std::move(converted));
      converted_ = index;
    }
    bytes = bytes_;
  }
  std::memcpy(out.data(), bytes->data() + first_byte, out.size());
  return absl::OkStatus();
}

}  // namespace dunlin::engine
