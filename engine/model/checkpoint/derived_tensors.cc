// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/derived_tensors.h"

#include <algorithm>
#include <utility>

namespace dunlin::engine {

DerivedTensors::DerivedTensors(std::unique_ptr<TensorSource> stored) : stored_(std::move(stored)) {
  for (const TensorInfo* tensor : stored_->List())
    next_file_index_ = std::max(next_file_index_, tensor->file_index + 1);
}

size_t DerivedTensors::Derive(std::string name, const TensorDType& dtype, std::vector<int64_t> shape,
                              const TensorInfo& source) {
  const size_t index = derived_.size();
  uint64_t elements = 1;
  for (const int64_t dimension : shape) elements *= static_cast<uint64_t>(dimension);
  TensorInfo info{.name = std::move(name),
                  .dtype = &dtype,
                  .shape = std::move(shape),
                  .begin = 0,
                  .end = elements * dtype.bits / 8,
                  .file_index = next_file_index_++};
  const Derived& derived = derived_.emplace_back(Derived{std::move(info), &source});
  by_name_.emplace(derived.info.name, index);
  Hide(&source);
  return index;
}

void DerivedTensors::Hide(const TensorInfo* tensor) {
  if (tensor != nullptr) hidden_.insert(tensor);
}

std::optional<size_t> DerivedTensors::IndexOf(const TensorInfo& tensor) const {
  const auto found = by_name_.find(tensor.name);
  if (found == by_name_.end() || &derived_[found->second].info != &tensor) return std::nullopt;
  return found->second;
}

const TensorInfo* DerivedTensors::Find(std::string_view name) const {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return &derived_[found->second].info;
  const TensorInfo* stored = stored_->Find(name);
  return hidden_.contains(stored) ? nullptr : stored;
}

absl::Status DerivedTensors::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  const std::optional<size_t> index = IndexOf(tensor);
  if (!index.has_value()) return stored_->Read(tensor, first_byte, out);
  return out.empty() ? absl::OkStatus() : ReadDerived(*index, first_byte, out);
}

absl::StatusOr<std::byte*> DerivedTensors::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                    PageBuffer* buffer) const {
  if (!IndexOf(tensor).has_value()) return stored_->ReadOnce(tensor, first_byte, bytes, buffer);
  return ReadIntoBuffer(*this, tensor, first_byte, bytes, buffer);
}

std::optional<kernels::CodeTraits> DerivedTensors::CodesOf(const TensorInfo& tensor) const {
  const std::optional<size_t> index = IndexOf(tensor);
  return index.has_value() ? DerivedCodes(*index) : stored_->CodesOf(tensor);
}

absl::Status DerivedTensors::ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows,
                                       CodedRows* out) const {
  const std::optional<size_t> index = IndexOf(tensor);
  return index.has_value() ? ReadDerivedCodes(*index, first_row, num_rows, out)
                           : stored_->ReadCodes(tensor, first_row, num_rows, out);
}

absl::Status DerivedTensors::ReadDerivedCodes(size_t index, int64_t /*first_row*/, int64_t /*num_rows*/,
                                              CodedRows* /*out*/) const {
  return absl::UnimplementedError(Info(index).name);
}

std::string DerivedTensors::WhyNoCodes(const TensorInfo& tensor) const {
  const std::optional<size_t> index = IndexOf(tensor);
  return index.has_value() ? WhyNoDerivedCodes(*index) : stored_->WhyNoCodes(tensor);
}

std::string DerivedTensors::FileOf(const TensorInfo& tensor) const {
  const std::optional<size_t> index = IndexOf(tensor);
  return stored_->FileOf(index.has_value() ? Source(*index) : tensor);
}

std::vector<const TensorInfo*> DerivedTensors::List() const {
  std::vector<const TensorInfo*> list;
  for (const Derived& derived : derived_) list.push_back(&derived.info);
  for (const TensorInfo* tensor : stored_->List()) {
    if (!hidden_.contains(tensor)) list.push_back(tensor);
  }
  return list;
}

}  // namespace dunlin::engine
