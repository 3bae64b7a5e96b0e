// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/kv_demand.h"

#include <algorithm>
#include <limits>

#include "engine/model/spec/attention_shape.h"
#include "engine/runtime/memory_plan.h"

namespace dunlin::engine {
namespace {

bool HasFp8Pages(const std::vector<Precision>& resident, const EngineOptions& options) {
  return options.kv_fp8 && std::find(resident.begin(), resident.end(), Precision::kFp8) != resident.end();
}

// Of the precision that packs fewest tokens into a page.
int32_t TokensPerPage(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options) {
  const bool kv_fp8 = HasFp8Pages(resident, options);
  int32_t fewest = std::numeric_limits<int32_t>::max();
  for (const Precision precision : resident) {
    fewest = std::min(fewest, KvLayoutOf(config, precision, kv_fp8).tokens_per_page);
  }
  return fewest;
}

size_t PageBytes(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options) {
  return KvLayoutOf(config, resident.front(), HasFp8Pages(resident, options)).page_bytes;
}

}  // namespace

KvDemand KvDemandOf(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options) {
  constexpr int64_t kMaxPages = std::numeric_limits<int32_t>::max();
  const int32_t per_page = TokensPerPage(config, resident, options);
  KvDemand demand;
  demand.page_bytes = PageBytes(config, resident, options);
  demand.context_tokens = ContextLimit(config, options);
  const KvGroups groups = KvGroupsOf(config);
  const auto pages_of = [&](int64_t tokens) { return groups.MostPages(tokens, per_page, options.max_tokens_per_step); };
  const int64_t one = pages_of(demand.context_tokens);
  const int64_t usual = pages_of(std::min(demand.context_tokens, kUsualContextTokens));
  demand.one_context = static_cast<size_t>(std::min(one, kMaxPages)) * demand.page_bytes;
  const int64_t most = std::max(one, usual * options.max_sequences);
  demand.most = static_cast<size_t>(std::min(most, kMaxPages)) * demand.page_bytes;
  return demand;
}

int32_t ContextThatFits(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                        size_t bytes) {
  constexpr size_t kMaxPages = std::numeric_limits<int32_t>::max();
  const auto pages = static_cast<int64_t>(std::min(bytes / PageBytes(config, resident, options), kMaxPages));
  return static_cast<int32_t>(KvGroupsOf(config).TokensThatFit(
      pages, ContextLimit(config, options), TokensPerPage(config, resident, options), options.max_tokens_per_step));
}

}  // namespace dunlin::engine
