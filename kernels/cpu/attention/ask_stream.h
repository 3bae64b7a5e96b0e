// What few rows ask memory for beside their work, evenly in time: most lines while they read others, the rest beside
// the softmax, which reads none. Four blocks are asked for side by side: the processor's own prefetcher follows each,
// and so few leave its queues room. Or one after the other, where products leave no time to wait for four. Plain data
// of one worker, started by the algorithms and moved on by the kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/api/kv_layout.h"

namespace dunlin::kernels::cpu {

inline constexpr int kRoundLines = 4;  // asked for at once

// How blocks of a number of rows ask (TileOps::plan_asks).
struct AskPlan {
  int ahead = 0;    // blocks in the list from what is read to what is asked for, at least; 0: no stream
  int eighths = 8;  // lines asked for while eight are read, 6 or 7; the rest beside the softmax
  // Into L2, not L1: where that takes more requests than L1 waits for at a time (Zen 4). Others drop requests for L2
  // when their queues are full (Zen 5).
  bool into_l2 = false;
  int side = kRoundLines;  // blocks asked for side by side, as the table's kernels do: 4, or 1 of whole rounds
};

// The lines of a list's blocks in the order in which they are asked for: a round is one of each of four blocks, or four
// of one.
struct AskStream {
  AskStream() = default;
  // list: from the first block that is read on: keys and values of `tiles` tiles, of which one softmax is made, then
  // those that are read after them. Keys and values have blocks of equal size. While keys are read, and again
  // while values are, the stream falls behind by half of what is left for the softmax.
  // following: how many blocks the list has behind those tiles, which bound how far ahead the stream asks.
  AskStream(const AskPlan& plan, const KvLayout& layout, const std::byte* const* list, int tiles, int tile_blocks,
            int following)
      : blocks(list + std::min(plan.ahead + tile_blocks * tiles * (8 - plan.eighths) / 8, following)),
        block_bytes(static_cast<int32_t>(layout.key_block_bytes)),
        eighths(plan.eighths),
        into_l2(plan.into_l2),
        side(plan.side) {
    const int32_t scale_bytes = layout.dtype == DType::kF8E4M3 ? layout.tokens_per_page * 4 : 0;
    const int32_t read_lines = (block_bytes - scale_bytes) / 64 * 2 * tile_blocks * tiles;
    softmax_rounds = (block_bytes / 64 * 2 * tile_blocks * tiles - read_lines * eighths / 8) / kRoundLines;
  }

  const std::byte* const* blocks = nullptr;  // those asked for now, then the others
  int32_t offset = 0;                        // into them
  int32_t block_bytes = 0;
  int32_t eighths = 8;
  int32_t softmax_rounds = 0;
  bool into_l2 = false;
  int32_t side = kRoundLines;
};

}  // namespace dunlin::kernels::cpu
