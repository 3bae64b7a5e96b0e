// SPDX-License-Identifier: Apache-2.0
// Ranks of a divided model on devices with memory of their own: each has a copy of the rows that all of them read,
// computes some columns or rows of them, and these go into the others' copies. Nothing is added up on the way, so no
// bit depends on who comes first.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

struct RankLinks;  // never defined: what linked ranks know of each other, private to each device

inline constexpr int32_t kMaxLinkedRanks = 8;  // the devices of one NVLink domain in a server

// Writes what the rank has of some rows into the copies of the ranks, and waits until theirs is in its own. All ranks
// call it equally often in one order, with as many rows and the same out_stride, and all or none with ids. After it, in
// the order of the rank's operations, what all ranks gave may be read, and what they had read before may be written.
struct ShareColumnsParams {
  RankLinks* links;
  int32_t rank;  // of the device that is called
  // Of each row num_blocks blocks of `columns` floats, as CopyColumnsParams.
  const float* in;
  int64_t in_stride;        // floats, >= 0
  int64_t in_block_stride;  // floats, >= 0
  // By rank: where these columns lie in its memory, linked ranks' memory; null: it does not read them. The rank's own
  // may be `in`, with its strides; else neither overlaps `in`.
  float* out[kMaxLinkedRanks];
  int64_t out_stride;        // floats, as CopyColumnsParams
  int64_t out_block_stride;  // floats, as CopyColumnsParams
  // Null: every row is the rank's. Else those are whose id is one of [first_id, first_id + num_ids).
  const int32_t* ids;  // [num_rows]
  int32_t first_id;
  int32_t num_ids;
  int32_t num_rows;    // >= 0; 0: nothing is written
  int32_t num_blocks;  // > 0
  int32_t columns;     // >= 0; 0: the rank has none
};

}  // namespace dunlin::kernels
