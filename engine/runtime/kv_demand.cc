// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/kv_demand.h"

#include <algorithm>
#include <limits>

#include "engine/model/spec/attention_shape.h"
#include "engine/model/spec/rank_config.h"
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

}  // namespace

size_t PageBytesOf(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                   int32_t num_ranks) {
  size_t bytes = 0;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const ModelConfig of_rank = RankConfig(config, rank, num_ranks);
    bytes += KvLayoutOf(of_rank, resident.front(), HasFp8Pages(resident, options)).page_bytes;
  }
  return bytes;
}

KvDemand KvDemandOf(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                    int32_t num_ranks) {
  constexpr int64_t kMaxPages = std::numeric_limits<int32_t>::max();
  const int32_t per_page = TokensPerPage(config, resident, options);
  KvDemand demand;
  demand.page_bytes = PageBytesOf(config, resident, options, num_ranks);
  demand.context_tokens = ContextLimit(config, options);
  const KvGroups groups = KvGroupsOf(config);
  const auto pages_of = [&](int64_t tokens) { return groups.MostPages(tokens, per_page, options.max_tokens_per_step); };
  const int64_t one = pages_of(demand.context_tokens);
  const int64_t usual = pages_of(std::min(demand.context_tokens, kUsualContextTokens));
  const auto bytes_of = [&](int64_t pages, int32_t states) {
    const size_t state_bytes = static_cast<size_t>(states) * StateBytesOf(config, num_ranks);
    const size_t state_pages = (state_bytes + demand.page_bytes - 1) / demand.page_bytes;
    return (static_cast<size_t>(std::min(pages, kMaxPages)) + state_pages) * demand.page_bytes;
  };
  demand.one_context = bytes_of(one, 1);
  // A state for each that runs, and as many that the prefix cache keeps.
  demand.most = bytes_of(std::max(one, usual * options.max_sequences), 2 * options.max_sequences);
  return demand;
}

size_t StateBytesOf(const ModelConfig& config, int32_t num_ranks) {
  if (!config.is_recurrent()) return 0;
  int64_t floats = 0;
  for (int32_t rank = 0; rank < num_ranks; ++rank) floats += RankConfig(config, rank, num_ranks).state_floats();
  return static_cast<size_t>(floats) * sizeof(float);
}

int32_t StateSlotsIn(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                     size_t bytes, int32_t num_ranks) {
  const size_t state = StateBytesOf(config, num_ranks);
  if (state == 0) return 0;
  const KvGroups groups = KvGroupsOf(config);
  const int32_t per_page = TokensPerPage(config, resident, options);
  const size_t page_bytes = PageBytesOf(config, resident, options, num_ranks);
  const auto pages_of = [&](int32_t tokens) {
    return static_cast<size_t>(groups.MostPages(tokens, per_page, options.max_tokens_per_step)) * page_bytes;
  };
  const int32_t context = ContextLimit(config, options);
  const size_t full = pages_of(context);
  const int32_t usual = std::min(context, kUsualContextTokens);
  const size_t running_bytes = state + pages_of(std::max(1, usual / 2));
  const size_t running = std::min(bytes / running_bytes, static_cast<size_t>(options.max_sequences));
  const size_t kept = (bytes - running * running_bytes) / (state + pages_of(usual));
  const size_t beside_full = bytes > full ? (bytes - full) / state : 0;
  const size_t most = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::clamp(std::min(beside_full, running + kept), size_t{1}, most));
}

int32_t ContextThatFits(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                        size_t bytes, int32_t num_ranks) {
  constexpr size_t kMaxPages = std::numeric_limits<int32_t>::max();
  bytes -= std::min(bytes, StateBytesOf(config, num_ranks));  // of one: the others take what a context leaves
  const auto pages =
      static_cast<int64_t>(std::min(bytes / PageBytesOf(config, resident, options, num_ranks), kMaxPages));
  return static_cast<int32_t>(KvGroupsOf(config).TokensThatFit(
      pages, ContextLimit(config, options), TokensPerPage(config, resident, options), options.max_tokens_per_step));
}

}  // namespace dunlin::engine
