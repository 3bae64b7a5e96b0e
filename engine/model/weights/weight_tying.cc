// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_tying.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/page_buffer.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kCompareBytes = uint64_t{16} << 20;

absl::StatusOr<bool> SameBytes(const TensorInfo& a, const TensorInfo& b, const TensorSource& source) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  const uint64_t size = a.end - a.begin;
  PageBuffer left_buffer;
  PageBuffer right_buffer;
  for (uint64_t at = 0; at < size; at += kCompareBytes) {
    const auto count = static_cast<size_t>(std::min(kCompareBytes, size - at));
    const absl::StatusOr<std::byte*> left = source.ReadOnce(a, at, count, &left_buffer);
    if (!left.ok()) return left.status();
    const absl::StatusOr<std::byte*> right = source.ReadOnce(b, at, count, &right_buffer);
    if (!right.ok()) return right.status();
    if (std::memcmp(*left, *right, count) != 0) return false;
  }
  return true;
}

std::string HeadName(const CheckpointNames& names) {
  for (const WeightName& name : names.weights) {
    if (name.slot == WeightSlot::kHead) return absl::StrCat(name.name, ".weight");
  }
  return "";
}

}  // namespace

absl::Status ResolveTying(const CheckpointNames& names, const std::string& prefix, const TensorSource& source,
                          bool compare, ModelConfig* config, std::vector<WeightPart>* parts,
                          std::vector<std::string>* warnings) {
  if (!config->head.tied) return absl::OkStatus();
  const TensorInfo* head = source.Find(HeadName(names));
  if (head == nullptr) return absl::OkStatus();
  const auto embedding_part = std::find_if(parts->begin(), parts->end(),
                                           [](const WeightPart& part) { return part.slot == WeightSlot::kEmbedding; });
  const TensorInfo* embedding = source.Find(embedding_part->tensor);
  if (embedding == nullptr) {
    embedding_part->tensor = head->name;
    return absl::OkStatus();
  }
  if (!compare) return absl::OkStatus();
  const absl::StatusOr<bool> same = SameBytes(*embedding, *head, source);
  if (!same.ok() || *same) return same.status();
  warnings->push_back(absl::StrCat("config.json ties ", head->name, " to ", embedding->name,
                                   ", but the checkpoint has both with different values: they are not tied"));
  config->head.tied = false;
  *parts = ListWeightParts(names, *config, prefix);
  return absl::OkStatus();
}

}  // namespace dunlin::engine
