// SPDX-License-Identifier: Apache-2.0
// The device memory of an encoder's runtime: a decoder's buffers without logits, and pages for the keys and values of
// one layer, which every layer overwrites.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/options.h"
#include "engine/runtime/memory_plan.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// Tokens of one batch: scheduler.max_tokens_per_step, but at least one input of full length. An input cannot be split
// over batches, because all its tokens attend to each other.
int32_t BatchTokens(const ModelConfig& config, const EngineOptions& options);

// Ignores kv_memory_bytes of the options: the number of pages follows from the batch. Errors: as PlanRanks.
absl::StatusOr<std::vector<MemoryPlan>> PlanEncoderRanks(const ModelConfig& config, int32_t num_ranks,
                                                         const std::vector<Precision>& resident,
                                                         const kernels::Device& device, const EngineOptions& options);
// Of all ranks.
absl::StatusOr<MemoryPlan> PlanEncoderMemory(const ModelConfig& config, const std::vector<Precision>& resident,
                                             const kernels::Device& device, const EngineOptions& options,
                                             int32_t num_ranks = 1);

}  // namespace dunlin::engine
