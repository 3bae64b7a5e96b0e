#include "engine/model/weight_parts.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/weight_scales.h"

namespace dunlin::engine {
namespace {

constexpr size_t kMaxNamedMissing = 4;
constexpr size_t kMaxNamedUnused = 8;

struct RowRange {
  int64_t begin;
  int64_t count;
};

RowRange RowsOf(const ModelConfig& config, WeightSlot slot, FusedPart part) {
  const int64_t query = int64_t{config.num_heads} * config.head_dim;
  const int64_t key = int64_t{config.num_kv_heads} * config.head_dim;
  switch (part) {
    case FusedPart::kAll:
      return {0, ShapeOf(config, slot).out_features};
    case FusedPart::kQuery:
      return {0, query};
    case FusedPart::kKey:
      return {query, key};
    case FusedPart::kValue:
      return {query + key, key};
    case FusedPart::kGate:
      return {0, config.ffn_dim};
    case FusedPart::kUp:
      return {config.ffn_dim, config.ffn_dim};
  }
  return {0, 0};
}

std::string FullName(const WeightName& name, const std::string& prefix, int32_t layer) {
  std::string full = name.prefixed ? prefix : "";
  for (const char* c = name.name; *c != '\0'; ++c) {
    if (*c == '#') {
      absl::StrAppend(&full, layer);
    } else {
      full += *c;
    }
  }
  return full;
}

WeightPart MakePart(const ModelConfig& config, const WeightName& name, const std::string& prefix, int32_t layer,
                    bool is_bias) {
  const RowRange rows = RowsOf(config, name.slot, name.part);
  const int64_t columns = ShapeOf(config, name.slot).in_features;
  WeightPart part{.slot = name.slot,
                  .layer = layer,
                  .is_bias = is_bias,
                  .axis = name.axis,
                  .transposed = name.transposed && !is_bias,
                  .tensor = absl::StrCat(FullName(name, prefix, layer), is_bias ? ".bias" : ".weight"),
                  .shape = {},
                  .row_begin = rows.begin,
                  .num_rows = rows.count,
                  .scaled_rows = 0,
                  .scale = 1.0F};
  if (part.is_vector()) {
    part.shape = {rows.count};
  } else if (part.transposed) {
    part.shape = {columns, rows.count};
  } else {
    part.shape = {rows.count, columns};
  }
  if (config.inverse_layer_query_scale && name.slot == WeightSlot::kQkv && layer > 0) {
    part.scaled_rows = int64_t{config.num_heads} * config.head_dim;
    part.scale = 1.0F / static_cast<float>(layer + 1);
  }
  return part;
}

void AppendParts(const Architecture& architecture, const ModelConfig& config, const std::string& prefix, int32_t layer,
                 bool per_layer, std::vector<WeightPart>* parts) {
  for (const WeightName& name : architecture.weights) {
    if (IsPerLayer(name.slot) != per_layer || !HasSlot(config, name.slot)) continue;
    parts->push_back(MakePart(config, name, prefix, layer, false));
    if (HasBias(config, name.slot)) parts->push_back(MakePart(config, name, prefix, layer, true));
  }
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace

std::string FindPrefix(const Architecture& architecture, const TensorSource& source) {
  for (const char* prefix : architecture.prefixes) {
    for (const WeightName& name : architecture.weights) {
      const bool leads = name.slot == WeightSlot::kEmbedding || name.slot == WeightSlot::kFinalNorm;
      if (leads && source.Find(absl::StrCat(prefix, name.name, ".weight")) != nullptr) return prefix;
    }
  }
  return architecture.prefixes.front();
}

std::vector<WeightPart> ListWeightParts(const Architecture& architecture, const ModelConfig& config,
                                        const std::string& prefix) {
  std::vector<WeightPart> parts;
  AppendParts(architecture, config, prefix, 0, false, &parts);
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    AppendParts(architecture, config, prefix, layer, true, &parts);
  }
  return parts;
}

void AcceptOldNormNames(const TensorSource& source, std::vector<WeightPart>* parts) {
  for (WeightPart& part : *parts) {
    if (!IsNorm(part.slot) || source.Find(part.tensor) != nullptr) continue;
    const std::string stem = part.tensor.substr(0, part.tensor.rfind('.'));
    const std::string old_name = absl::StrCat(stem, part.is_bias ? ".beta" : ".gamma");
    if (source.Find(old_name) != nullptr) part.tensor = old_name;
  }
}

absl::Status CheckParts(const std::vector<WeightPart>& parts, const TensorSource& source) {
  std::vector<std::string> missing;
  for (const WeightPart& part : parts) {
    const TensorInfo* tensor = source.Find(part.tensor);
    if (tensor == nullptr) {
      missing.push_back(part.tensor);
      continue;
    }
    if (tensor->shape != part.shape) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", part.tensor, "' has shape ", ShapeText(tensor->shape),
                                                     "; config.json makes it ", ShapeText(part.shape)));
    }
    if (!tensor->dtype->loadable.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", part.tensor, "' has dtype ", tensor->dtype->name,
                                                     "; weights are loaded from F32, F16, BF16 and F8_E4M3"));
    }
    if (*tensor->dtype->loadable == kernels::DType::kF8E4M3 && part.scales.weight == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", part.tensor, "' has dtype F8_E4M3; norms and biases are loaded from F32, F16 and BF16"));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  const size_t num_missing = missing.size();
  missing.resize(std::min(num_missing, kMaxNamedMissing));
  return absl::NotFoundError(absl::StrCat("the checkpoint lacks ", num_missing, " tensor(s): ",
                                          absl::StrJoin(missing, ", "), num_missing > missing.size() ? ", ..." : ""));
}

std::vector<std::string> UnusedTensorWarnings(const Architecture& architecture, const std::vector<WeightPart>& parts,
                                              const TensorSource& source) {
  std::set<std::string_view> used;
  for (const WeightPart& part : parts) {
    used.insert(part.tensor);
    for (const TensorInfo* scale : {part.scales.weight, part.scales.input}) {
      if (scale != nullptr) used.insert(scale->name);
    }
  }
  std::vector<std::string> unused;
  for (const TensorInfo* tensor : source.List()) {
    const auto is_buffer = [&](const char* ending) { return tensor->name.ends_with(ending); };
    if (used.contains(tensor->name) || IsKvScale(tensor->name)) continue;
    if (std::any_of(architecture.ignored.begin(), architecture.ignored.end(), is_buffer)) continue;
    unused.push_back(tensor->name);
  }
  if (unused.empty()) return {};
  const size_t num_unused = unused.size();
  unused.resize(std::min(num_unused, kMaxNamedUnused));
  return {absl::StrCat(num_unused, " tensor(s) of the checkpoint are not used: ", absl::StrJoin(unused, ", "),
                       num_unused > unused.size() ? ", ..." : "")};
}

int64_t CountParameters(const std::vector<WeightPart>& parts) {
  int64_t count = 0;
  for (const WeightPart& part : parts) {
    int64_t size = 1;
    for (const int64_t dimension : part.shape) size *= dimension;
    count += size;
  }
  return count;
}

}  // namespace dunlin::engine
