// What an encoder's runtime holds in device memory: a decoder's buffers, with pages for the keys and values of one
// layer (every layer writes them anew) and without logits.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/options.h"
#include "engine/runtime/memory_plan.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// Tokens of one batch: scheduler.max_tokens_per_step, but never less than one input of full length, because an input is
// not computed in parts: its tokens see each other.
int32_t BatchTokens(const ModelConfig& config, const EngineOptions& options);

// The layout of the pages of one layer in a precision.
kernels::KvLayout LayerKvLayoutOf(const ModelConfig& config, Precision precision);

// kv_memory_bytes of the options is not looked at: the pages follow from the batch. Errors: PlanMemory's.
absl::StatusOr<MemoryPlan> PlanEncoderMemory(const ModelConfig& config, const std::vector<Precision>& resident,
                                             const kernels::Device& device, const EngineOptions& options);

}  // namespace dunlin::engine
