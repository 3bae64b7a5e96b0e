// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/widened_tensors.h"

#include <cstring>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/weights/weight_scales.h"
#include "kernels/api/float_formats.h"
#include "kernels/api/gemm.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kFirstWidenedFileIndex = 1 << 22;  // above those of files, below those of RotaryRows

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> WidenedTensors::Open(std::unique_ptr<TensorSource> stored,
                                                                   const Quantization& quantization,
                                                                   const std::vector<std::string>& names) {
  std::unique_ptr<WidenedTensors> tensors(new WidenedTensors(std::move(stored)));
  for (const std::string& name : names) {
    const TensorInfo* tensor = tensors->stored_->Find(name);
    if (tensor == nullptr || tensor->dtype->loadable != kernels::DType::kF8E4M3) continue;
    if (absl::Status status = tensors->Add(quantization, *tensor); !status.ok()) return status;
  }
  // Last, because entries move while there come more.
  for (size_t i = 0; i < tensors->entries_.size(); ++i) tensors->by_name_.emplace(tensors->entries_[i].info.name, i);
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
  if (absl::Status status = FindScales(quantization, *stored_, &part); !status.ok()) return status;
  TensorInfo info = tensor;
  info.dtype = &TensorDTypeOf(kernels::DType::kF32);
  info.file_index = kFirstWidenedFileIndex + static_cast<int32_t>(entries_.size());
  info.begin = 0;
  info.end = (tensor.end - tensor.begin) * sizeof(float);
  entries_.push_back({std::move(info), &tensor, part.front().scales});
  return absl::OkStatus();
}

const WidenedTensors::Entry* WidenedTensors::EntryOf(const TensorInfo& tensor) const {
  if (tensor.file_index < kFirstWidenedFileIndex) return nullptr;
  return &entries_[static_cast<size_t>(tensor.file_index - kFirstWidenedFileIndex)];
}

const TensorInfo* WidenedTensors::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? stored_->Find(name) : &entries_[found->second].info;
}

absl::Status WidenedTensors::Widen(const Entry& entry, uint64_t first, std::span<float> values) const {
  const absl::StatusOr<std::vector<float>> scales = ReadScales(*stored_, *entry.scales.weight);
  if (!scales.ok()) return scales.status();
  std::vector<std::byte> codes(values.size());
  if (absl::Status status = stored_->Read(*entry.stored, first, codes); !status.ok()) return status;
  const int64_t columns = entry.info.shape[1];
  const int64_t per_row = kernels::ScalesPerRow(entry.scales.block, columns);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto element = static_cast<int64_t>(first + i);
    const int64_t row = element / columns / entry.scales.rows_per_scale;
    const int64_t block = entry.scales.block == 0 ? 0 : element % columns / entry.scales.block;
    values[i] =
        kernels::E4M3ToFloat(static_cast<uint8_t>(codes[i])) * (*scales)[static_cast<size_t>(row * per_row + block)];
  }
  return absl::OkStatus();
}

absl::Status WidenedTensors::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  const Entry* entry = EntryOf(tensor);
  if (entry == nullptr) return stored_->Read(tensor, first_byte, out);
  if (out.empty()) return absl::OkStatus();
  const uint64_t first = first_byte / sizeof(float);
  const uint64_t end = (first_byte + out.size() + sizeof(float) - 1) / sizeof(float);
  std::vector<float> values(end - first);
  if (absl::Status status = Widen(*entry, first, values); !status.ok()) return status;
  std::memcpy(out.data(), reinterpret_cast<const std::byte*>(values.data()) + (first_byte - first * sizeof(float)),
              out.size());
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> WidenedTensors::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                    PageBuffer* buffer) const {
  if (EntryOf(tensor) == nullptr) return stored_->ReadOnce(tensor, first_byte, bytes, buffer);
  return ReadIntoBuffer(*this, tensor, first_byte, bytes, buffer);
}

std::string WidenedTensors::FileOf(const TensorInfo& tensor) const {
  const Entry* entry = EntryOf(tensor);
  return stored_->FileOf(entry == nullptr ? tensor : *entry->stored);
}

std::vector<const TensorInfo*> WidenedTensors::List() const {
  std::unordered_set<const TensorInfo*> replaced;
  std::vector<const TensorInfo*> list;
  for (const Entry& entry : entries_) {
    replaced.insert({entry.stored, entry.scales.weight, entry.scales.input});
    list.push_back(&entry.info);
  }
  for (const TensorInfo* tensor : stored_->List()) {
    if (!replaced.contains(tensor)) list.push_back(tensor);
  }
  return list;
}

}  // namespace dunlin::engine
