// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/expert_tensors.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<TensorSource>> ExpertTensors::Open(std::unique_ptr<TensorSource> stored,
                                                                  const std::vector<ExpertStack>& stacks,
                                                                  int32_t count_of_layer) {
  std::unique_ptr<ExpertTensors> tensors(new ExpertTensors(std::move(stored)));
  for (const ExpertStack& row : stacks) {
    const TensorInfo* stack = tensors->stored_->Find(row.stack);
    if (stack == nullptr) continue;
    const int64_t count = stack->shape.empty() ? 0 : stack->shape.front();
    if (count != count_of_layer) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", row.stack, "' holds ", count, " matrices; config.json makes it ", count_of_layer));
    }
    tensors->AddExperts(*stack, row.expert);
  }
  return tensors;
}

absl::StatusOr<std::unique_ptr<TensorSource>> ExpertTensors::OpenSlices(std::unique_ptr<TensorSource> stored,
                                                                        const std::vector<TensorSlice>& slices) {
  std::unique_ptr<ExpertTensors> tensors(new ExpertTensors(std::move(stored)));
  for (const TensorSlice& slice : slices) {
    const TensorInfo* tensor = tensors->stored_->Find(slice.stored);
    if (tensor == nullptr) continue;
    const int64_t rows = tensor->shape.empty() ? 0 : tensor->shape.front();
    if (rows == 0 || rows != slice.stored_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", slice.stored, "' has ", rows, " rows; config.json makes it ", slice.stored_rows));
    }
    const uint64_t row_bytes = (tensor->end - tensor->begin) / static_cast<uint64_t>(rows);
    TensorInfo info = *tensor;
    info.name = slice.name;
    info.shape.front() = slice.count;
    tensors->Add(std::move(info), *tensor, static_cast<uint64_t>(slice.first) * row_bytes,
                 static_cast<uint64_t>(slice.count) * row_bytes);
  }
  return tensors;
}

void ExpertTensors::Add(TensorInfo info, const TensorInfo& stack, uint64_t before, uint64_t bytes) {
  info.begin = stack.begin + before;
  info.end = info.begin + bytes;
  std::string name = info.name;
  entries_.emplace(std::move(name), Entry{.info = std::move(info), .stack = &stack});
}

void ExpertTensors::AddExperts(const TensorInfo& stack, const std::string& expert_name) {
  const uint64_t size = (stack.end - stack.begin) / static_cast<uint64_t>(stack.shape.front());
  for (int64_t i = 0; i < stack.shape.front(); ++i) {
    TensorInfo info = stack;
    info.name = absl::StrReplaceAll(expert_name, {{"@", absl::StrCat(i)}});
    info.shape.erase(info.shape.begin());
    Add(std::move(info), stack, static_cast<uint64_t>(i) * size, size);
  }
}

std::pair<const TensorInfo*, uint64_t> ExpertTensors::Locate(const TensorInfo& tensor) const {
  const auto found = entries_.find(tensor.name);
  if (found == entries_.end()) return {&tensor, 0};
  return {found->second.stack, tensor.begin - found->second.stack->begin};
}

const TensorInfo* ExpertTensors::Find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? stored_->Find(name) : &found->second.info;
}

absl::Status ExpertTensors::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  const auto [stored, before] = Locate(tensor);
  return stored_->Read(*stored, before + first_byte, out);
}

absl::StatusOr<std::byte*> ExpertTensors::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                   PageBuffer* buffer) const {
  const auto [stored, before] = Locate(tensor);
  return stored_->ReadOnce(*stored, before + first_byte, bytes, buffer);
}

// A stack with codes has its experts' rows one after the other.
absl::Status ExpertTensors::ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows,
                                      CodedRows* out) const {
  const auto [stored, before] = Locate(tensor);
  const uint64_t row_bytes = (tensor.end - tensor.begin) / static_cast<uint64_t>(tensor.shape.front());
  return stored_->ReadCodes(*stored, static_cast<int64_t>(before / row_bytes) + first_row, num_rows, out);
}

std::string ExpertTensors::FileOf(const TensorInfo& tensor) const {
  return stored_->FileOf(*Locate(tensor).first);
}

std::vector<const TensorInfo*> ExpertTensors::List() const {
  std::set<const TensorInfo*> stacks;
  std::vector<const TensorInfo*> list;
  for (const auto& [name, entry] : entries_) {
    stacks.insert(entry.stack);
    list.push_back(&entry.info);
  }
  for (const TensorInfo* tensor : stored_->List()) {
    if (!stacks.contains(tensor)) list.push_back(tensor);
  }
  return list;
}

}  // namespace dunlin::engine
