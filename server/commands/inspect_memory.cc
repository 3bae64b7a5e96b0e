// SPDX-License-Identifier: Apache-2.0
#include "server/commands/inspect_memory.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/config/config.h"
#include "server/models/default_precisions.h"
#include "server/models/memory_budget.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Config> ConfigFor(const engine::ModelSource& source, const std::string& precisions) {
  Json model = {{"name", "model"}};
  if (source.path.empty()) {
    model["weights"] = "random";
    model["shape"] = source.random_shape;
  } else {
    model["path"] = source.path;
  }
  const std::vector<std::string> names = absl::StrSplit(precisions, ',', absl::SkipEmpty());
  model["parallel"]["tensor"] = source.num_ranks;
  model["precisions"] = names;  // none: the model's default
  return LoadConfigText(Json{{"models", {model}}}.dump(), {});
}

}  // namespace

absl::StatusOr<Json> MemoryJson(const engine::ModelSource& source, const std::string& precisions,
                                kernels::Device* cpu) {
  const absl::StatusOr<Config> read = ConfigFor(source, precisions);
  if (!read.ok()) return read.status();
  const absl::StatusOr<Config> config = WithDefaultPrecisions(*read, {cpu});
  if (!config.ok()) return config.status();
  const absl::StatusOr<MemoryBudget> budget = PlanServerMemory(*config, {cpu}, ReadHostFacts());
  if (absl::IsResourceExhausted(budget.status())) return Json{{"refusal", std::string(budget.status().message())}};
  if (!budget.ok()) return budget.status();
  const ModelMemory& model = budget->models.front();
  return Json{{"weights_bytes", model.weights},
              {"kv_bytes", model.kv},
              {"kv_contexts", model.contexts},
              {"context_tokens", model.context_tokens},
              {"workspace_bytes", model.workspace},
              {"tokenizer_bytes", model.text},
              {"streams_bytes", budget->edge},
              {"process_bytes", budget->process},
              {"requests_bytes", budget->requests.total()},
              {"total_bytes", budget->total()},
              {"limit_bytes", budget->limit},
              {"limit", budget->limit_source}};
}

}  // namespace dunlin::server
