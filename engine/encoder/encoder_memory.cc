// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_memory.h"

#include <algorithm>

#include "engine/runtime/kv_demand.h"

namespace dunlin::engine {
int32_t BatchTokens(const ModelConfig& config, const EngineOptions& options) {
  return std::max(options.max_tokens_per_step, ContextLimit(config, options));
}

absl::StatusOr<std::vector<MemoryPlan>> PlanEncoderRanks(const ModelConfig& config, int32_t num_ranks,
                                                         const std::vector<Precision>& resident,
                                                         const kernels::Device& device, const EngineOptions& options) {
  EngineOptions batch = options;
  batch.max_tokens_per_step = BatchTokens(config, options);
  batch.kv_memory_bytes = 0;
  batch.kv_fp8 = false;
  for (const Precision precision : resident) {
    // Each input may leave its last page partly empty.
    const int32_t tokens_per_page = KvLayoutOf(config, precision).tokens_per_page;
    const auto num_pages = static_cast<size_t>(batch.max_tokens_per_step / tokens_per_page + batch.max_sequences);
    batch.kv_memory_bytes =
        std::max(batch.kv_memory_bytes, num_pages * PageBytesOf(config, {precision}, batch, num_ranks));
  }
  absl::StatusOr<std::vector<MemoryPlan>> plans = PlanRanks(config, num_ranks, resident, device, batch);
  if (!plans.ok()) return plans.status();
  for (MemoryPlan& plan : *plans) plan.bytes[static_cast<size_t>(BufferId::kLogits)] = 0;
  return plans;
}

absl::StatusOr<MemoryPlan> PlanEncoderMemory(const ModelConfig& config, const std::vector<Precision>& resident,
                                             const kernels::Device& device, const EngineOptions& options,
                                             int32_t num_ranks) {
  const auto plans = PlanEncoderRanks(config, num_ranks, resident, device, options);
  if (!plans.ok()) return plans.status();
  return SumOf(*plans);
}

}  // namespace dunlin::engine
