// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/widened_tensors.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/weights/weight_scales.h"
#include "kernels/api/float_formats.h"
#include "kernels/api/gemm.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<TensorSource>> WidenedTensors::Open(std::unique_ptr<TensorSource> stored,
                                                                   const Quantization& quantization,
                                                                   const std::vector<std::string>& names) {
  std::unique_ptr<WidenedTensors> tensors(new WidenedTensors(std::move(stored)));
  for (const std::string& name : names) {
    const TensorInfo* tensor = tensors->stored().Find(name);
    if (tensor == nullptr || tensor->dtype->loadable != kernels::DType::kF8E4M3) continue;
    if (absl::Status status = tensors->Add(quantization, *tensor); !status.ok()) return status;
  }
  return tensors;
}

absl::Status WidenedTensors::Add(const Quantization& quantization, const TensorInfo& tensor) {
  if (tensor.shape.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name, "' has ", tensor.shape.size(), " dimensions; must have 2"));
  }
  std::vector<WeightPart> part;
  part.push_back({.slot = WeightSlot::kLatentQuery,  // any matrix's
                  .layer = 0,
                  .is_bias = false,
                  .transposed = false,
                  .tensor = tensor.name,
                  .shape = tensor.shape,
                  .row_begin = 0,
                  .num_rows = tensor.shape[0],
                  .source_row = 0,
                  .scaled_rows = 0,
                  .scale = 1.0F});
  if (absl::Status status = FindScales(quantization, stored(), &part); !status.ok()) return status;
  const PartScales& scales = scales_.emplace_back(part.front().scales);
  Derive(tensor.name, TensorDTypeOf(kernels::DType::kF32), tensor.shape, tensor);
  Hide(scales.weight);
  Hide(scales.input);
  return absl::OkStatus();
}

absl::Status WidenedTensors::Widen(size_t index, uint64_t first, std::span<float> values) const {
  const PartScales& part = scales_[index];
  const absl::StatusOr<std::vector<float>> scales = ReadScales(stored(), *part.weight);
  if (!scales.ok()) return scales.status();
  std::vector<std::byte> codes(values.size());
  if (absl::Status status = stored().Read(Source(index), first, codes); !status.ok()) return status;
  const int64_t columns = Info(index).shape[1];
  const int64_t per_row = kernels::ScalesPerRow(part.block, columns);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto element = static_cast<int64_t>(first + i);
    const int64_t row = element / columns / part.rows_per_scale;
    const int64_t block = part.block == 0 ? 0 : element % columns / part.block;
    values[i] =
        kernels::E4M3ToFloat(static_cast<uint8_t>(codes[i])) * (*scales)[static_cast<size_t>(row * per_row + block)];
  }
  return absl::OkStatus();
}

absl::Status WidenedTensors::ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const {
  const uint64_t first = first_byte / sizeof(float);
  const uint64_t end = (first_byte + out.size() + sizeof(float) - 1) / sizeof(float);
  std::vector<float> values(end - first);
  if (absl::Status status = Widen(index, first, values); !status.ok()) return status;
  std::memcpy(out.data(), reinterpret_cast<const std::byte*>(values.data()) + (first_byte - first * sizeof(float)),
              out.size());
  return absl::OkStatus();
}

}  // namespace dunlin::engine
