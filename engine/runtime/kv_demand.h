// SPDX-License-Identifier: Apache-2.0
// How much KV memory a decoder can make use of: the bounds of a pool whose size follows from the memory at hand
// (models[].kv_cache.memory_bytes "auto"). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/options.h"
#include "engine/types.h"

namespace dunlin::engine {

// Bytes of whole pages, in the resident precision whose contexts take most pages.
struct KvDemand {
  size_t page_bytes = 0;
  size_t one_context = 0;   // a pool below this refuses requests that the model could serve
  size_t all_contexts = 0;  // options.max_sequences of them: more would never be read
  int32_t context_tokens = 0;
};

// resident: as PlanMemory. Ignores options.kv_memory_bytes. REQUIRES: the model is a decoder.
KvDemand KvDemandOf(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options);

// The longest context of which one fits into `bytes`: KvDemand::one_context <= bytes; 0 when not even one page does.
int32_t ContextThatFits(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                        size_t bytes);

}  // namespace dunlin::engine
