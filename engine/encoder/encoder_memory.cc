#include "engine/encoder/encoder_memory.h"

#include <algorithm>

namespace dunlin::engine {
namespace {

ModelConfig OneLayerOf(const ModelConfig& config) {
  ModelConfig one_layer = config;
  one_layer.num_layers = 1;
  return one_layer;
}

}  // namespace

int32_t BatchTokens(const ModelConfig& config, const EngineOptions& options) {
  return std::max(options.max_tokens_per_step, ContextLimit(config, options));
}

kernels::KvLayout LayerKvLayoutOf(const ModelConfig& config, Precision precision) {
  return KvLayoutOf(OneLayerOf(config), precision);
}

absl::StatusOr<MemoryPlan> PlanEncoderMemory(const ModelConfig& config, const std::vector<Precision>& resident,
                                             const kernels::Device& device, const EngineOptions& options) {
  EngineOptions batch = options;
  batch.max_tokens_per_step = BatchTokens(config, options);
  batch.kv_memory_bytes = 0;
  batch.kv_fp8 = false;
  for (const Precision precision : resident) {
    // Each input may leave its last page partly empty.
    const kernels::KvLayout layout = LayerKvLayoutOf(config, precision);
    const auto num_pages =
        static_cast<size_t>(batch.max_tokens_per_step / layout.tokens_per_page + batch.max_sequences);
    batch.kv_memory_bytes = std::max(batch.kv_memory_bytes, num_pages * layout.page_bytes);
  }
  absl::StatusOr<MemoryPlan> plan = PlanMemory(OneLayerOf(config), resident, device, batch);
  if (plan.ok()) plan->bytes[static_cast<size_t>(BufferId::kLogits)] = 0;
  return plan;
}

}  // namespace dunlin::engine
