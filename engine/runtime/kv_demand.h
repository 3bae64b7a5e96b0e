// SPDX-License-Identifier: Apache-2.0
// How much KV memory a decoder can make use of: the bounds of a pool whose size follows from the memory at hand
// (models[].kv_cache.memory_bytes "auto"). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/spec/model_config.h"
#include "engine/request/options.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// A sequence of a full batch is rarely longer. A pool for 64 full contexts of a long-context model would take hundreds
// of gigabytes, all of them touched.
inline constexpr int32_t kUsualContextTokens = 4096;

// Bytes of whole pages, in the resident precision whose contexts take most pages, and of as many as hold the states of
// a recurrent model. Of sliding layers a context takes its window and a step.
struct KvDemand {
  size_t page_bytes = 0;
  size_t one_context = 0;  // a pool below this refuses requests that the model could serve
  // options.max_sequences of them, each as long as kUsualContextTokens at most; never below one_context. With a shorter
  // limit of the model, more would never be read. With two states for each: its own, and one that the prefix cache
  // keeps.
  size_t most = 0;
  int32_t context_tokens = 0;
};

// resident: as PlanMemory. Ignores options.kv_memory_bytes. num_ranks: among which the model is divided, whose pages
// count together. REQUIRES: the model is a decoder, CheckDivisible.
KvDemand KvDemandOf(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                    int32_t num_ranks = 1);

// Of a page of every rank.
size_t PageBytesOf(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                   int32_t num_ranks = 1);

// FP32 bytes of a sequence's state, its slot, of every rank; 0 of a model without recurrent layers.
size_t StateBytesOf(const ModelConfig& config, int32_t num_ranks = 1);

// Slots for which KV memory of `bytes` has room. Those of sequences that run, at most options.max_sequences, next to
// the pages of as many usual contexts, half written as they are on average; from what is left further ones for states
// that the prefix cache keeps, one next to the pages of each kUsualContextTokens. All next to the pages of one full
// context; at least 1; 0 of a model without recurrent layers.
int32_t StateSlotsIn(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                     size_t bytes, int32_t num_ranks = 1);

// The longest context of which one fits into `bytes`: KvDemand::one_context <= bytes; 0 when not even one page does.
int32_t ContextThatFits(const ModelConfig& config, const std::vector<Precision>& resident, const EngineOptions& options,
                        size_t bytes, int32_t num_ranks = 1);

}  // namespace dunlin::engine
