// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/integer/integer_tensors.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kFirstIntegerFileIndex = 1 << 20;  // above those of the files: no two weights are read with one call

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> IntegerTensors::Open(const IntegerQuantization& quantization,
                                                                   std::unique_ptr<TensorSource> stored) {
  absl::StatusOr<std::vector<IntegerWeight>> weights = FindIntegerWeights(quantization, *stored);
  if (!weights.ok()) return weights.status();
  if (weights->empty()) {
    return absl::InvalidArgumentError("quantization_config is set, and the checkpoint has no weight of its layout");
  }
  std::unique_ptr<IntegerTensors> tensors(new IntegerTensors(std::move(stored)));
  tensors->weights_ = *std::move(weights);
  for (size_t i = 0; i < tensors->weights_.size(); ++i) {
    const IntegerWeight& weight = tensors->weights_[i];
    absl::StatusOr<IntegerCodes> codes = DescribeCodes(*tensors->stored_, weight);
    if (!codes.ok()) return codes.status();
    tensors->codes_.push_back(*std::move(codes));
    TensorInfo info;
    info.name = weight.name;
    info.dtype = &TensorDTypeOf(kernels::DType::kF32);
    info.shape = {weight.rows, weight.columns};
    info.end = static_cast<uint64_t>(weight.rows) * static_cast<uint64_t>(weight.columns) * sizeof(float);
    info.file_index = kFirstIntegerFileIndex + static_cast<int32_t>(i);
    tensors->infos_.push_back(std::move(info));
    tensors->by_name_.push_back(i);
    for (const TensorInfo* used : {weight.codes, weight.scales, weight.zeros, weight.group_index, weight.table,
                                   weight.nested_scales, weight.scale_table}) {
      if (used != nullptr) tensors->used_.push_back(used);
    }
    tensors->used_.insert(tensors->used_.end(), weight.others.begin(), weight.others.end());
  }
  const auto name = [&](size_t i) -> const std::string& { return tensors->infos_[i].name; };
  std::sort(tensors->by_name_.begin(), tensors->by_name_.end(), [&](size_t a, size_t b) { return name(a) < name(b); });
  const auto twin = std::adjacent_find(tensors->by_name_.begin(), tensors->by_name_.end(),
                                       [&](size_t a, size_t b) { return name(a) == name(b); });
  if (twin != tensors->by_name_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("weight '", name(*twin), "' is quantised twice"));
  }
  std::sort(tensors->used_.begin(), tensors->used_.end(), std::less<>());
  return tensors;
}

const TensorInfo* IntegerTensors::Find(std::string_view name) const {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [this](size_t i, std::string_view key) { return infos_[i].name < key; });
  if (found != by_name_.end() && infos_[*found].name == name) return &infos_[*found];
  const TensorInfo* stored = stored_->Find(name);
  const bool used = std::binary_search(used_.begin(), used_.end(), stored, std::less<>());
  return used ? nullptr : stored;
}

const IntegerWeight* IntegerTensors::WeightOf(const TensorInfo& tensor) const {
  if (tensor.file_index < kFirstIntegerFileIndex) return nullptr;
  return &weights_[static_cast<size_t>(tensor.file_index - kFirstIntegerFileIndex)];
}

const IntegerCodes* IntegerTensors::DescriptionOf(const TensorInfo& tensor) const {
  if (tensor.file_index < kFirstIntegerFileIndex) return nullptr;
  return &codes_[static_cast<size_t>(tensor.file_index - kFirstIntegerFileIndex)];
}

absl::StatusOr<std::shared_ptr<const IntegerRows>> IntegerTensors::RowsOf(const IntegerWeight& weight) const {
  const MutexLock lock(&mutex_);
  if (loaded_weight_ == &weight) return loaded_;
  loaded_weight_ = nullptr;
  loaded_ = nullptr;  // before the next one takes its memory
  absl::StatusOr<IntegerRows> rows = IntegerRows::Load(*stored_, weight);
  if (!rows.ok()) return rows.status();
  loaded_ = std::make_shared<const IntegerRows>(*std::move(rows));
  loaded_weight_ = &weight;
  return loaded_;
}

absl::Status IntegerTensors::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  const IntegerWeight* weight = WeightOf(tensor);
  if (weight == nullptr) return stored_->Read(tensor, first_byte, out);
  if (out.empty()) return absl::OkStatus();
  const absl::StatusOr<std::shared_ptr<const IntegerRows>> rows = RowsOf(*weight);
  if (!rows.ok()) return rows.status();
  const uint64_t row_bytes = static_cast<uint64_t>(weight->columns) * sizeof(float);
  const auto first = static_cast<int64_t>(first_byte / row_bytes);
  const auto end = static_cast<int64_t>((first_byte + out.size() + row_bytes - 1) / row_bytes);
  const bool whole_rows = first_byte % row_bytes == 0 && out.size() % row_bytes == 0;
  if (whole_rows && reinterpret_cast<uintptr_t>(out.data()) % alignof(float) == 0) {
    (*rows)->Dequantize(first, end - first, reinterpret_cast<float*>(out.data()));
    return absl::OkStatus();
  }
  std::vector<float> values(static_cast<size_t>((end - first) * weight->columns));
  (*rows)->Dequantize(first, end - first, values.data());
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  std::memcpy(out.data(), bytes + (first_byte - static_cast<uint64_t>(first) * row_bytes), out.size());
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> IntegerTensors::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                    PageBuffer* buffer) const {
  if (WeightOf(tensor) == nullptr) return stored_->ReadOnce(tensor, first_byte, bytes, buffer);
  return ReadIntoBuffer(*this, tensor, first_byte, bytes, buffer);
}

std::optional<kernels::CodeTraits> IntegerTensors::CodesOf(const TensorInfo& tensor) const {
  const IntegerCodes* codes = DescriptionOf(tensor);
  return codes == nullptr ? stored_->CodesOf(tensor) : codes->traits;
}

absl::Status IntegerTensors::ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows,
                                       CodedRows* out) const {
  const IntegerWeight* weight = WeightOf(tensor);
  if (weight == nullptr) return stored_->ReadCodes(tensor, first_row, num_rows, out);
  const absl::StatusOr<std::shared_ptr<const IntegerRows>> rows = RowsOf(*weight);
  if (!rows.ok()) return rows.status();
  (*rows)->ReadCodes(*DescriptionOf(tensor)->traits, first_row, num_rows, out);
  return absl::OkStatus();
}

std::string IntegerTensors::WhyNoCodes(const TensorInfo& tensor) const {
  const IntegerCodes* codes = DescriptionOf(tensor);
  return codes == nullptr ? stored_->WhyNoCodes(tensor) : codes->reason;
}

std::string IntegerTensors::FileOf(const TensorInfo& tensor) const {
  const IntegerWeight* weight = WeightOf(tensor);
  return stored_->FileOf(weight == nullptr ? tensor : *weight->codes);
}

std::vector<const TensorInfo*> IntegerTensors::List() const {
  std::vector<const TensorInfo*> list;
  for (const TensorInfo& info : infos_) list.push_back(&info);
  for (const TensorInfo* stored : stored_->List()) {
    if (!std::binary_search(used_.begin(), used_.end(), stored, std::less<>())) list.push_back(stored);
  }
  return list;
}

}  // namespace dunlin::engine
