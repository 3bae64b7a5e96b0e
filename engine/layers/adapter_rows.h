// SPDX-License-Identifier: Apache-2.0
// The rows of a batch that have low-rank adapters. Plain data in host memory, borrowed until the pass has been
// enqueued: AdapterStage fills it.
#pragma once

#include <cstdint>
#include <span>

#include "engine/adapters/adapter.h"
#include "kernels/api/low_rank.h"

namespace dunlin::engine {

class ExpertAdapters;  // expert_adapters.h

struct AdapterRows {
  // The rows of one adapter, ascending.
  struct Use {
    const Adapter* adapter;
    const int32_t* rows;  // [num_rows]
    int32_t num_rows;     // > 0
  };
  std::span<const Use> all;   // rows of the batch
  std::span<const Use> kept;  // rows among KeptRows
  kernels::LowRankUse* list;  // [all.size()] where the list of a product is made
  int32_t* head_rows;         // where the rows of a block of the head's are listed, as many as `kept` has
  ExpertAdapters* experts;    // where those of a layer's experts are made
};

}  // namespace dunlin::engine
