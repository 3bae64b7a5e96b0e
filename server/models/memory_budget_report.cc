// SPDX-License-Identifier: Apache-2.0
// What a memory plan comes to, against its limit and in words.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "server/models/memory_budget.h"

namespace dunlin::server {
namespace {

// Of a model: buffers of automatic sizes are whole huge pages, so that a plan may come to more than its share.
constexpr size_t kRoundingBytes = size_t{4} << 20;

std::string Figures(const ModelMemory& model) {
  std::string text = absl::StrCat("weights ", model.weights, ", KV ", model.kv, " (", model.pages, " pages");
  if (model.context_tokens > 0 && model.contexts > 0) {
    absl::StrAppend(&text, ", ", model.contexts, model.contexts == 1 ? " context of " : " contexts of ",
                    model.context_tokens, " tokens");
  }
  absl::StrAppend(&text, ")");
  if (model.num_ranks > 1) absl::StrAppend(&text, " divided among ", model.num_ranks, " ranks");
  absl::StrAppend(&text, ", workspace ", model.workspace, ", tokenizer ", model.text);
  if (model.draft > 0) absl::StrAppend(&text, ", draft model ", model.draft);
  if (model.images > 0) absl::StrAppend(&text, ", image encoder ", model.images, ", images ", model.image_rows);
  if (model.adapters > 0) absl::StrAppend(&text, ", adapters ", model.adapters);
  if (model.evicted_adapters > 0) absl::StrAppend(&text, ", evicted adapters ", model.evicted_adapters);
  absl::StrAppend(&text, ": ", model.total(), " bytes");
  return text;
}

size_t Excess(const MemoryBudget& budget) {
  return budget.total() - std::min(budget.total(), budget.limit);
}

// A higher limit leaves requests more as well, a fifth of it where memory.request_bytes is automatic.
std::string MoreMemory(const MemoryBudget& budget) {
  if (budget.ulimit.empty()) return "memory.limit_bytes, memory.share_percent";
  const size_t enough = Excess(budget) / 4 * 5;
  const size_t kib = enough / 1024 * 100 / static_cast<size_t>(budget.share_percent) + 1;
  return absl::StrCat("a ", budget.ulimit, " that is ", kib, " higher, memory.share_percent");
}

}  // namespace

size_t MemoryBudget::resident() const {
  size_t sum = edge + process;
  for (const ModelMemory& model : models) sum += model.on_host_bytes();
  return sum;
}

bool ExceedsLimit(const MemoryBudget& budget) {
  return Excess(budget) > kRoundingBytes * budget.models.size();
}

absl::Status MemoryRefused(const MemoryBudget& budget, std::string_view advice) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the memory plan does not fit: ", absl::StrJoin(Describe(budget), "; "), ". ", engine::AbslView(advice),
      ". More memory: ", MoreMemory(budget), "; less for requests: memory.request_bytes"));
}

std::vector<std::string> Describe(const MemoryBudget& budget) {
  std::vector<std::string> lines;
  size_t models = 0;
  for (const ModelMemory& model : budget.models) {
    models += model.on_host_bytes();
    lines.push_back(absl::StrCat("model \"", model.name, "\": ", Figures(model)));
  }
  lines.push_back(absl::StrCat("models ", models, ", streams ", budget.edge, ", process ", budget.process, ": ",
                               budget.resident(), " bytes of ", budget.limit, " (", budget.limit_source, ")"));
  lines.push_back(absl::StrCat(Describe(budget.requests), ", ", budget.total(), " with the rest"));
  return lines;
}

std::vector<std::string> WarningsOf(const MemoryBudget& budget) {
  std::vector<std::string> lines;
  for (const ModelMemory& model : budget.models) {
    if (model.lacks_context) {
      lines.push_back(absl::StrCat("model \"", model.name, "\": ", model.pages, " KV pages hold no context of ",
                                   model.context_tokens,
                                   " tokens: longer requests are refused "
                                   "(models[].kv_cache.memory_bytes)"));
    }
    if (model.config_tokens == 0) continue;
    lines.push_back(absl::StrCat("model \"", model.name, "\": models[].max_context_tokens is ", model.config_tokens,
                                 ", more than the model's ", model.context_tokens, ", which is used"));
  }
  if (ExceedsLimit(budget)) {
    lines.push_back(absl::StrCat("the memory plan exceeds its limit by ", Excess(budget),
                                 " bytes: lower models[].kv_cache.memory_bytes or memory.request_bytes, or list "
                                 "fewer models[].precisions"));
  }
  return lines;
}

}  // namespace dunlin::server
