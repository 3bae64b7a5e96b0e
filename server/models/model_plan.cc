// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/models/default_precisions.h"
#include "server/models/memory_limit.h"

namespace dunlin::server {
namespace {

// For KV pages: where others have taken what was planned for them, requests still get theirs, and no cgroup's limit
// ends the process.
std::function<size_t()> MemoryLeftAfter(size_t request_bytes) {
  return [request_bytes] {
    const size_t left = MemoryLeft("");
    return left - std::min(left, request_bytes);
  };
}

PlannedModel Planned(const ModelSettings& settings, kernels::Device* device, const ModelMemory& memory,
                     const RequestMemory& requests) {
  PlannedModel planned{settings, device, memory};
  planned.settings.text_work = requests.text_work;
  planned.settings.engine.kv_backing.memory_left = MemoryLeftAfter(requests.in_process());
  planned.settings.draft.kv_memory_bytes = memory.draft_kv;
  planned.settings.engine.adapters.max_bytes = memory.adapters;
  if (memory.kv_auto) {
    planned.settings.engine.kv_memory_bytes = static_cast<size_t>(memory.pages) * memory.page_bytes;
  }
  return planned;
}

// The start's, with these models, and with what the text workers of one more may take.
MemoryBudget BudgetWith(const StartPlan& start, const std::vector<ModelMemory>& residents) {
  MemoryBudget budget = start.budget;
  const size_t num_models = residents.size() + 1;
  budget.requests.grammars = budget.requests.grammars / start.num_models * num_models;
  budget.requests.chats = budget.requests.chats / start.num_models * num_models;
  budget.models = residents;
  return budget;
}

}  // namespace

absl::StatusOr<std::vector<PlannedModel>> PlanModels(const Config& config, Devices* devices, StartPlan* start) {
  Config at_start = config;
  std::erase_if(at_start.models, [](const ModelSettings& settings) { return settings.idle_unload_s > 0; });
  std::vector<kernels::Device*> opened;
  for (const ModelSettings& settings : at_start.models) {
    const absl::StatusOr<kernels::Device*> device = devices->For(settings);
    if (!device.ok()) return device.status();
    opened.push_back(*device);
  }
  const absl::StatusOr<Config> completed = WithDefaultPrecisions(at_start, opened);
  if (!completed.ok()) return completed.status();
  start->config = config;
  absl::StatusOr<MemoryBudget> empty = EmptyBudget(config, ReadHostFacts());
  if (!empty.ok()) return empty.status();
  absl::StatusOr<MemoryBudget> budget = AddToBudget(*std::move(empty), *completed, opened);
  if (!budget.ok()) return budget.status();
  for (const std::string& line : Describe(*budget)) spdlog::info("memory plan: {}", line);
  for (const std::string& line : WarningsOf(*budget)) spdlog::warn("{}", line);
  std::vector<PlannedModel> planned;
  for (size_t i = 0; i < opened.size(); ++i) {
    planned.push_back(Planned(completed->models[i], opened[i], budget->models[i], budget->requests));
    auto ranks = devices->RanksFor(completed->models[i], opened[i]);
    if (!ranks.ok()) return ranks.status();
    planned.back().ranks = *std::move(ranks);
  }
  start->num_models = std::max<size_t>(config.models.size(), 1);
  start->budget = *std::move(budget);
  start->budget.models.clear();
  return planned;
}

absl::StatusOr<PlannedModel> PlanAddedModel(const StartPlan& start, const ModelSettings& settings, Devices* devices,
                                            const std::vector<ModelMemory>& residents, size_t kv_bytes) {
  const absl::StatusOr<kernels::Device*> device = devices->For(settings);
  if (!device.ok()) return device.status();
  Config config = start.config;
  config.models = {settings};
  absl::StatusOr<Config> completed = WithDefaultPrecisions(config, {*device});
  if (!completed.ok()) return completed.status();
  ModelSettings& added = completed->models[0];
  const bool keeps_kv = kv_bytes > 0 && added.engine.kv_memory_bytes == kAutoBytes;
  if (keeps_kv) added.engine.kv_memory_bytes = kv_bytes;
  const MemoryBudget before = BudgetWith(start, residents);
  absl::StatusOr<MemoryBudget> budget = AddToBudget(before, *completed, {*device});
  if (keeps_kv && (!budget.ok() || budget->models.back().lacks_context)) {
    added.engine.kv_memory_bytes = kAutoBytes;
    budget = AddToBudget(before, *completed, {*device});
  }
  if (!budget.ok()) return budget.status();
  if (ExceedsLimit(*budget)) {
    return MemoryRefused(*budget,
                         absl::StrCat("The plan exceeds its limit by ", budget->total() - budget->limit,
                                      " bytes: unload a model first, or lower models[].kv_cache.memory_bytes"));
  }
  for (const std::string& line : Describe(*budget)) spdlog::info("memory plan: {}", line);
  ModelMemory memory = budget->models.back();
  if (keeps_kv) memory.kv_auto = true;
  PlannedModel planned = Planned(added, *device, memory, budget->requests);
  auto ranks = devices->RanksFor(added, *device);
  if (!ranks.ok()) return ranks.status();
  planned.ranks = *std::move(ranks);
  return planned;
}

}  // namespace dunlin::server
