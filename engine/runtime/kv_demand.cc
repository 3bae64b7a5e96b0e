// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/kv_demand.h"

#include <algorithm>
#include <limits>

#include "engine/model/attention_shape.h"
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
  const int64_t pages = (int64_t{demand.context_tokens} + per_page - 1) / per_page;
  demand.one_context = static_cast<size_t>(std::min(pages, kMaxPages)) * demand.page_bytes;
  demand.all_contexts = static_cast<size_t>(std::min(pages * options.max_sequences, kMaxPages)) * demand.page_bytes;
  return demand;
}

int32_t ContextThatFits(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                        size_t bytes) {
  const size_t pages = bytes / PageBytes(config, resident, options);
  const auto tokens = static_cast<uint64_t>(TokensPerPage(config, resident, options)) * pages;
  return static_cast<int32_t>(std::min<uint64_t>(tokens, static_cast<uint64_t>(ContextLimit(config, options))));
}

}  // namespace dunlin::engine
