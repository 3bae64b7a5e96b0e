// SPDX-License-Identifier: Apache-2.0
// A block of up to kMaxRows packed query rows of one (sequence, KV head): their queries in the form that the score
// kernels read, and the keys each row sees. Thread rule: belongs to one worker.
//
// Queries stay unscaled; the exponent's scale is applied to the FP32 score (folding it before rounding to BF16 would
// add an error). For BF16 pages a query is rounded to BF16, and kept as FP32 or, for the BF16 dot product, two
// dimensions to a word, as it is for E4M3 pages where that multiplies them; for other pages it is not rounded.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/call.h"

namespace dunlin::kernels::cpu {

struct QueryBlock {
  int32_t sequence;  // of the call
  int32_t kv_head;
  int32_t first_position;    // of the sequence's token 0 among its keys
  int rows;                  // 1..kMaxRows
  int32_t min_start;         // the first row's
  int32_t max_limit;         // the last row's
  int32_t tokens[kMaxRows];  // of the sequence
  int32_t heads[kMaxRows];   // of the KV head's group
  int32_t starts[kMaxRows];  // first key that a row sees, not decreasing; the limit when it sees none
  int32_t limits[kMaxRows];  // one past the last, not decreasing
  const std::byte* q;        // [rows] packed, QueryRowBytes apart
};

// The rows from..to - 1 of a block: those that see a key of a tile or chunk. `cut`: not every one sees its first key.
struct TileRows {
  int from;
  int to;
  bool cut;

  int count() const { return to - from; }
};

// Prefetches the rows of queries or outputs of a block, in order. They lie a stride apart that hardware prefetchers do
// not follow.
template <typename Byte>
class RowPrefetcher {
 public:
  // offset: the sequence's. Prefetches nothing yet.
  RowPrefetcher(const AttentionCall& call, const RowTensor<Byte>& tensor, int32_t dim, int64_t offset, int32_t kv_head,
                int64_t first_row, int rows)
      : element_bytes_(static_cast<int64_t>(SizeOf(tensor.dtype))),
        row_bytes_(dim * element_bytes_),
        head_bytes_(tensor.head_stride * element_bytes_),
        token_bytes_(tensor.token_stride * element_bytes_ - call.group * head_bytes_),
        group_(call.group),
        head_(static_cast<int32_t>(first_row % call.group)),
        left_(rows),
        row_(tensor.data + (offset + first_row / call.group * tensor.token_stride +
                            (kv_head * int64_t{call.group} + head_) * tensor.head_stride) *
                               element_bytes_) {}

  // The next `count` rows, while there are any. kWrites: they will be written. Always inlined: GCC 12 deletes a call of
  // a function that does nothing but prefetch.
  template <bool kWrites>
  [[gnu::always_inline]] void Prefetch(int count) {
    for (; count > 0 && left_ > 0; --count, --left_) {
      for (int64_t byte = 0; byte < row_bytes_; byte += 64) __builtin_prefetch(row_ + byte, kWrites ? 1 : 0, 3);
      row_ += head_bytes_;
      if (++head_ == group_) {
        head_ = 0;
        row_ += token_bytes_;
      }
    }
  }

  // The prefetch distance in rows: 8 KB, about the latency of memory times one core's bandwidth.
  static int RowsAhead(const RowTensor<Byte>& tensor, int32_t dim) {
    return static_cast<int>(8192 / (dim * static_cast<int64_t>(SizeOf(tensor.dtype))));
  }

 private:
  int64_t element_bytes_;
  int64_t row_bytes_;
  int64_t head_bytes_;
  int64_t token_bytes_;  // from the end of a token's last head to the next token's first
  int32_t group_;
  int32_t head_;
  int left_;
  const std::byte* row_;
};

// The first key of the tile or chunk where a walk over the block's keys starts.
constexpr int32_t FirstTile(const QueryBlock& block, int32_t width) {
  return block.min_start / width * width;
}

// The rows first_row .. of the sequence; packed_q: [rows * QueryRowBytes], 64-byte aligned.
void LoadQueryBlock(const AttentionCall& call, const SequenceView& sequence, int32_t kv_head, int64_t first_row,
                    int rows, std::byte* packed_q, QueryBlock* block);

// Of the keys [first, first + width) row r of the rows returned sees first + begin[r] .. first + valid[r] - 1.
TileRows RowsOfTile(const QueryBlock& block, int32_t first, int32_t width, int32_t* begin, int32_t* valid);

// Turns the scores of these rows for the keys [first, first + valid[r]) into what the softmax takes: the call's rule,
// and -inf before begin[r]. s, begin, valid: of row rows.from. Does nothing without a rule and a window.
void AdjustScores(const AttentionCall& call, const QueryBlock& block, int32_t first, const TileRows& rows,
                  const int32_t* begin, const int32_t* valid, float* s, int64_t s_stride);

// What the sink of row r's head adds to the sum of its softmax, whose largest score is row_max; 0 without sinks.
float SinkTerm(const AttentionCall& call, const QueryBlock& block, int r, float row_max);

// Writes row r of the block as o / sum, rounded to the output dtype; a row with sum 0 saw nothing and gives zeros.
void StoreOutputRow(const AttentionCall& call, const SequenceView& sequence, const QueryBlock& block, int r,
                    const float* o, float sum);

}  // namespace dunlin::kernels::cpu
