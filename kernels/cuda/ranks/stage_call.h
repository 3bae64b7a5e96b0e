// SPDX-License-Identifier: Apache-2.0
// ShareColumnsParams between devices that cannot write each other's memory: a rank puts its columns into memory of the
// host, with a note of where they belong, and after the meeting each other rank takes them to its own copy. Rows go in
// pieces that the memory holds; while one is put there, the piece before is taken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ranks/share_call.h"

namespace dunlin::kernels::cuda {

// What a rank has put into its stage. Columns are counted in units, as in ShareCall.
struct alignas(16) StagedNote {
  float* out[kMaxLinkedRanks];  // in the ranks' memory; null: nothing to take
  int64_t out_stride;           // floats, as out_block_stride
  int64_t out_block_stride;
  uint32_t num_units;
  uint32_t columns;
  uint32_t num_blocks;
  uint32_t num_rows;  // whose flags follow the columns; 0: all rows are there
  uint32_t vector;
};
inline constexpr uint32_t kNoteWords = offsetof(StagedNote, vector) / sizeof(uint32_t) + 1;

// A rank's columns of a piece in memory of the host that all devices read and write. There are two, for meetings in
// turns: who fills one again has come to the meeting before, and so have all who read it.
struct RankStage {
  StagedNote* note;
  float* columns;  // [num_units] units one after another, then a flag for each row that may be another rank's
};

// 2^21 floats, 8 MB: at 22 GB/s two ranks' halves of a piece take 190 us, of which a meeting's 7 are 4 %.
inline constexpr int64_t kStageFloats = int64_t{1} << 21;

struct StageCall {
  ShareCall share;  // `out` of the rank's own copy alone
  StagedNote note;
  RankStage stages[kMaxLinkedRanks][2];  // by rank, then by the meeting
  StagedNote* taken;                     // [num_ranks] in device memory: the notes of the last meeting
  bool takes;                            // the columns of the last meeting
  bool gives;                            // the piece, and meets
};

// Rows of a piece. All ranks have the same number: it follows from what is equal in theirs (ShareColumnsParams).
inline int32_t RowsOfPiece(const ShareColumnsParams& p, int64_t stage_floats) {
  const int64_t floats = std::max(p.out_stride, int64_t{1}) + (p.ids == nullptr ? 0 : 1);
  return static_cast<int32_t>(std::clamp(stage_floats / floats, int64_t{1}, int64_t{INT32_MAX}));
}

// Whether the rank's columns of one row have room.
inline bool FitsStage(const ShareColumnsParams& p, int64_t stage_floats) {
  return int64_t{p.num_blocks} * p.columns < stage_floats;
}

// Rows [first, first + count).
inline ShareColumnsParams PieceOf(const ShareColumnsParams& p, int32_t first, int32_t count) {
  ShareColumnsParams piece = p;
  piece.num_rows = count;
  if (p.in != nullptr) piece.in += first * p.in_stride;
  if (p.ids != nullptr) piece.ids += first;
  for (float*& out : piece.out) {
    if (out != nullptr) out += first * p.out_stride;
  }
  return piece;
}

// Of a piece, without signals, counts, stop, stages and taken. REQUIRES: IsValid, FitsStage.
inline StageCall StageCallOf(const ShareColumnsParams& p, int32_t num_ranks) {
  StageCall call{};
  call.share = ShareCallOf(p, num_ranks);
  call.gives = true;
  call.note = {.out = {},
               .out_stride = p.out_stride,
               .out_block_stride = p.out_block_stride,
               .num_units = 0,
               .columns = call.share.columns,
               .num_blocks = call.share.num_blocks,
               .num_rows = p.ids == nullptr ? 0 : static_cast<uint32_t>(p.num_rows),
               .vector = call.share.vector ? 1U : 0U};
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    if (rank == p.rank || call.share.out[rank] == nullptr) continue;
    call.note.out[rank] = call.share.out[rank];
    call.note.num_units = call.share.num_units;
    call.share.out[rank] = nullptr;
  }
  return call;
}

// Calls launch(call, rows) for each launch of the operation: `rows` of the larger of the pieces that it moves.
template <typename Launch>
void ForEachStage(const ShareColumnsParams& p, int32_t num_ranks, int64_t stage_floats, const Launch& launch) {
  const int32_t rows = RowsOfPiece(p, stage_floats);
  bool takes = false;
  for (int32_t first = 0; first == 0 || first < p.num_rows; first += rows) {
    StageCall call = StageCallOf(PieceOf(p, first, std::min(rows, p.num_rows - first)), num_ranks);
    call.takes = takes;
    launch(call, std::min(rows, p.num_rows));
    takes = p.num_rows > 0;
    if (p.num_rows - first <= rows) break;  // first + rows may not be a number
  }
  if (!takes) return;
  StageCall last{};
  last.share.rank = p.rank;
  last.share.num_ranks = num_ranks;
  last.takes = true;
  launch(last, std::min(rows, p.num_rows));
}

// Of a launch that moves pieces of so many rows.
inline uint32_t StageBlocks(const ShareColumnsParams& p, int32_t rows, int32_t multiprocessors) {
  const int64_t units = (int64_t{rows} * p.out_stride / 4 + kShareUnits - 1) / kShareUnits;
  return static_cast<uint32_t>(std::clamp(units, int64_t{1}, int64_t{std::max(multiprocessors, 1)}));
}

}  // namespace dunlin::kernels::cuda
