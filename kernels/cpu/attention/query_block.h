// A block of up to kMaxRows packed query rows of one (sequence, KV head): their queries in the form that the score
// kernels read, and the number of keys each row sees. Thread rule: belongs to one worker.
//
// Queries stay unscaled; the exponent's scale is applied to the FP32 score (folding it before rounding to BF16 would
// add an error). For BF16 pages a query is rounded to BF16, and kept as FP32 or, for the BF16 dot product, two
// dimensions to a word; for FP16 and FP32 pages it stays what it is.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/call.h"

namespace dunlin::kernels::cpu {

struct QueryBlock {
  int32_t kv_head;
  int64_t first_row;         // packed row of the sequence
  int rows;                  // 1..kMaxRows
  int32_t max_limit;         // most keys that a row sees, the last row's
  int32_t limits[kMaxRows];  // keys each row sees, not decreasing
  const std::byte* q;        // [rows] packed, QueryRowBytes apart
};

// The rows first_row .. of the sequence; packed_q: [kMaxRows * QueryRowBytes], 64-byte aligned.
void LoadQueryBlock(const AttentionCall& call, const SequenceView& sequence, int32_t kv_head, int64_t first_row,
                    int rows, std::byte* packed_q, QueryBlock* block);

// valid[r] = how many of the keys [first, first + width) row r sees. Returns the first row that sees one (or rows).
int TileLimits(const QueryBlock& block, int32_t first, int32_t width, int32_t* valid);

// Writes row r of the block as o / sum, rounded to the output dtype; a row with sum 0 saw nothing and gives zeros.
void StoreOutputRow(const AttentionCall& call, const SequenceView& sequence, const QueryBlock& block, int r,
                    const float* o, float sum);

}  // namespace dunlin::kernels::cpu
