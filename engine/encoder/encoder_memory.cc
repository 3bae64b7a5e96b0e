// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_memory.h"

#include <algorithm>

namespace dunlin::engine {
int32_t BatchTokens(const ModelConfig& config, const EngineOptions& options) {
  return std::max(options.max_tokens_per_step, ContextLimit(config, options));
}

absl::StatusOr<MemoryPlan> PlanEncoderMemory(const ModelConfig& config, const std::vector<Precision>& resident,
                                             const kernels::Device& device, const EngineOptions& options) {
  EngineOptions batch = options;
  batch.max_tokens_per_step = BatchTokens(config, options);
  batch.kv_memory_bytes = 0;
  batch.kv_fp8 = false;
  for (const Precision precision : resident) {
    // Each input may leave its last page partly empty.
    const kernels::KvLayout layout = KvLayoutOf(config, precision);
    const auto num_pages =
        static_cast<size_t>(batch.max_tokens_per_step / layout.tokens_per_page + batch.max_sequences);
    batch.kv_memory_bytes = std::max(batch.kv_memory_bytes, num_pages * layout.page_bytes);
  }
  absl::StatusOr<MemoryPlan> plan = PlanMemory(config, resident, device, batch);
  if (plan.ok()) plan->bytes[static_cast<size_t>(BufferId::kLogits)] = 0;
  return plan;
}

}  // namespace dunlin::engine
