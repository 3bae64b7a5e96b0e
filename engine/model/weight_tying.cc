#include "engine/model/weight_tying.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kCompareBytes = uint64_t{1} << 20;

absl::StatusOr<bool> SameBytes(const TensorInfo& a, const TensorInfo& b, const TensorSource& source) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  const uint64_t size = a.end - a.begin;
  std::vector<std::byte> left(std::min(size, kCompareBytes));
  std::vector<std::byte> right(left.size());
  for (uint64_t at = 0; at < size; at += left.size()) {
    const size_t count = std::min<uint64_t>(left.size(), size - at);
    if (absl::Status status = source.Read(a, at, std::span(left).first(count)); !status.ok()) return status;
    if (absl::Status status = source.Read(b, at, std::span(right).first(count)); !status.ok()) return status;
    if (!std::equal(left.begin(), left.begin() + static_cast<ptrdiff_t>(count), right.begin())) return false;
  }
  return true;
}

std::string HeadName(const Architecture& architecture) {
  for (const WeightName& name : architecture.weights) {
    if (name.slot == WeightSlot::kHead) return absl::StrCat(name.name, ".weight");
  }
  return "";
}

}  // namespace

absl::Status ResolveTying(const Architecture& architecture, const std::string& prefix, const TensorSource& source,
                          bool compare, ModelConfig* config, std::vector<WeightPart>* parts,
                          std::vector<std::string>* warnings) {
  if (!config->tied_embeddings) return absl::OkStatus();
  const TensorInfo* head = source.Find(HeadName(architecture));
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
  config->tied_embeddings = false;
  *parts = ListWeightParts(architecture, *config, prefix);
  return absl::OkStatus();
}

}  // namespace dunlin::engine
