// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/renamed_tensors.h"

#include <algorithm>
#include <utility>

namespace dunlin::engine {

RenamedTensors::RenamedTensors(std::unique_ptr<TensorSource> stored, std::span<const RenamedPrefix> prefixes)
    : stored_(std::move(stored)) {
  for (const TensorInfo* tensor : stored_->List()) {
    const auto prefix = std::find_if(prefixes.begin(), prefixes.end(), [tensor](const RenamedPrefix& candidate) {
      return tensor->name.starts_with(candidate.stored);
    });
    if (prefix == prefixes.end()) continue;
    std::string name = prefix->name + tensor->name.substr(prefix->stored.size());
    if (stored_->Find(name) != nullptr) continue;
    TensorInfo info = *tensor;
    info.name = name;
    const auto [entry, is_new] = entries_.try_emplace(std::move(name), Entry{std::move(info), tensor});
    if (is_new) of_stored_[tensor] = &entry->second;
  }
}

const TensorInfo* RenamedTensors::Find(std::string_view name) const {
  const auto found = entries_.find(std::string(name));
  return found == entries_.end() ? stored_->Find(name) : &found->second.info;
}

const TensorInfo& RenamedTensors::StoredOf(const TensorInfo& tensor) const {
  const auto found = entries_.find(tensor.name);
  return found == entries_.end() ? tensor : *found->second.stored;
}

std::vector<const TensorInfo*> RenamedTensors::List() const {
  std::vector<const TensorInfo*> list = stored_->List();
  for (const TensorInfo*& tensor : list) {
    const auto found = of_stored_.find(tensor);
    if (found != of_stored_.end()) tensor = &found->second->info;
  }
  return list;
}

}  // namespace dunlin::engine
