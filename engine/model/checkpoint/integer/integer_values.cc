// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/integer/integer_values.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

constexpr float kInt8Range = 127.0F;

}  // namespace

absl::StatusOr<std::vector<std::byte>> ReadWhole(const TensorSource& source, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  if (absl::Status status = source.Read(tensor, 0, bytes); !status.ok()) return status;
  return bytes;
}

absl::StatusOr<std::vector<float>> ReadFloats(const TensorSource& source, const TensorInfo& tensor) {
  const absl::StatusOr<std::vector<std::byte>> bytes = ReadWhole(source, tensor);
  if (!bytes.ok()) return bytes.status();
  const kernels::DType dtype = *tensor.dtype->loadable;
  std::vector<float> values(bytes->size() / kernels::SizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = dtype == kernels::DType::kF32   ? ElementAt<float>(*bytes, i)
                : dtype == kernels::DType::kF16 ? kernels::Fp16ToFloat(ElementAt<uint16_t>(*bytes, i))
                                                : kernels::Bf16ToFloat(ElementAt<uint16_t>(*bytes, i));
    if (!std::isfinite(values[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.FileOf(tensor), ": tensor '", tensor.name, "': element ", i, " is not finite"));
    }
  }
  return values;
}

absl::StatusOr<std::vector<float>> ReadPlainScales(const TensorSource& source, const IntegerWeight& weight) {
  absl::StatusOr<std::vector<float>> scales = ReadFloats(source, *weight.scales);
  if (scales.ok() && weight.layout == IntegerLayout::kInt8Rows) {
    for (float& scale : *scales) scale /= kInt8Range;
  }
  return scales;
}

absl::StatusOr<std::vector<int32_t>> ReadGroupIndex(const TensorSource& source, const IntegerWeight& weight) {
  std::vector<int32_t> group_of;
  if (weight.group_index == nullptr) return group_of;
  const absl::StatusOr<std::vector<std::byte>> stored = ReadWhole(source, *weight.group_index);
  if (!stored.ok()) return stored.status();
  group_of.resize(static_cast<size_t>(weight.columns));
  for (size_t k = 0; k < group_of.size(); ++k) {
    group_of[k] = ElementAt<int32_t>(*stored, k);
    if (group_of[k] >= 0 && group_of[k] < weight.num_groups) continue;
    return absl::InvalidArgumentError(absl::StrCat(source.FileOf(*weight.group_index), ": tensor '",
                                                   weight.group_index->name, "': element ", k, " is ", group_of[k],
                                                   "; limit is [0, ", weight.num_groups - 1, "]"));
  }
  return group_of;
}

}  // namespace dunlin::engine
