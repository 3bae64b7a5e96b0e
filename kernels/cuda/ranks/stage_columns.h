// SPDX-License-Identifier: Apache-2.0
// StageCall on a device: every block takes its part of what the last meeting's ranks have put into the host's memory,
// and puts its part of the rank's columns there; the last one to have done so meets the other ranks, as in
// share_columns.h, and reads their notes. A launch after the last one takes what these say, so that all blocks read.
//
// System: as in share_columns.h, stores to memory of this device, and loads of memory that other devices write.
#pragma once

#include <cstdint>

#include "kernels/cuda/ranks/share_columns.h"
#include "kernels/cuda/ranks/stage_call.h"

namespace dunlin::kernels::cuda {

// Loads on their way at once, since each crosses PCIe.
inline constexpr uint32_t kTakenUnits = 4;

// T: float or Float4, a unit.
template <typename T, typename System>
DUNLIN_DEVICE void PutColumns(const System& system, const StageCall& call, const RankStage& stage, uint32_t first,
                              uint32_t stride) {
  constexpr int64_t kFloats = sizeof(T) / sizeof(float);
  const ShareCall& share = call.share;
  float* const flags = stage.columns + call.note.num_units * kFloats;
  float* const own = share.out[share.rank];
  for (uint32_t i = first; i < share.num_units; i += stride) {
    const uint32_t run = i / share.columns;
    const uint32_t row = run / share.num_blocks;
    const int64_t block = run % share.num_blocks;
    const int64_t column = i % share.columns * kFloats;
    const bool shares = SharesRow(share, row);
    if (call.note.num_rows > 0 && call.note.num_units > 0 && block == 0 && column == 0) {
      system.Store(flags + row, shares ? 1.0F : 0.0F);
    }
    if (!shares) continue;
    const T value =
        *reinterpret_cast<const T*>(share.in + row * share.in_stride + block * share.in_block_stride + column);
    if (call.note.num_units > 0) system.Store(reinterpret_cast<T*>(stage.columns + i * kFloats), value);
    if (own == nullptr) continue;
    const int64_t at = row * share.out_stride + block * share.out_block_stride + column;
    system.StoreHere(reinterpret_cast<T*>(own + at), value);
  }
}

// What a rank has put into `columns`, to `out` of this rank. The note's numbers are read once: stores might change it.
template <typename T, typename System>
DUNLIN_DEVICE void TakeColumns(const System& system, const StagedNote& note, const float* columns, float* out,
                               uint32_t first, uint32_t stride) {
  constexpr int64_t kFloats = sizeof(T) / sizeof(float);
  const uint32_t num_units = note.num_units;
  const uint32_t row_columns = note.columns;
  const uint32_t num_blocks = note.num_blocks;
  const int64_t out_stride = note.out_stride;
  const int64_t out_block_stride = note.out_block_stride;
  const float* const flags = note.num_rows == 0 ? nullptr : columns + num_units * kFloats;
  for (uint64_t begin = first; begin < num_units; begin += uint64_t{kTakenUnits} * stride) {
    T values[kTakenUnits];
    DUNLIN_UNROLL for (uint32_t k = 0; k < kTakenUnits; ++k) {
      const uint64_t i = begin + uint64_t{k} * stride;
      if (i < num_units) values[k] = system.Load(reinterpret_cast<const T*>(columns + i * kFloats));
    }
    DUNLIN_UNROLL for (uint32_t k = 0; k < kTakenUnits; ++k) {
      const uint64_t i = begin + uint64_t{k} * stride;
      if (i >= num_units) continue;
      const auto unit = static_cast<uint32_t>(i);
      const uint32_t run = unit / row_columns;
      const uint32_t row = run / num_blocks;
      if (flags != nullptr && system.Load(flags + row) == 0.0F) continue;
      const int64_t at = row * out_stride + run % num_blocks * out_block_stride + unit % row_columns * kFloats;
      system.StoreHere(reinterpret_cast<T*>(out + at), values[k]);
    }
  }
}

template <typename System>
DUNLIN_DEVICE void TakeFromRanks(const System& system, const StageCall& call, uint32_t first, uint32_t stride) {
  const uint32_t turn = call.share.counts->meetings % 2;
  for (int32_t rank = 0; rank < call.share.num_ranks; ++rank) {
    if (rank == call.share.rank) continue;
    const StagedNote& note = call.taken[rank];
    float* const out = note.out[call.share.rank];
    if (out == nullptr) continue;
    const float* const columns = call.stages[rank][turn].columns;
    if (note.vector != 0) {
      TakeColumns<Float4>(system, note, columns, out, first, stride);
    } else {
      TakeColumns<float>(system, note, columns, out, first, stride);
    }
  }
}

// The block's part of the rank's columns and of its note.
template <typename Lanes, typename System>
DUNLIN_DEVICE void PutBlock(const Lanes& lanes, const System& system, const StageCall& call, uint32_t block,
                            uint32_t num_blocks) {
  const auto count = static_cast<uint32_t>(lanes.count());
  const auto lane = static_cast<uint32_t>(lanes.index());
  const RankStage& stage = call.stages[call.share.rank][(call.share.counts->meetings + 1) % 2];
  if (call.share.vector) {
    PutColumns<Float4>(system, call, stage, block * count + lane, num_blocks * count);
  } else {
    PutColumns<float>(system, call, stage, block * count + lane, num_blocks * count);
  }
  if (block != 0) return;
  const auto* const words = reinterpret_cast<const uint32_t*>(&call.note);
  for (uint32_t i = lane; i < kNoteWords; i += count) {
    system.Store(reinterpret_cast<uint32_t*>(stage.note) + i, words[i]);
  }
}

// By the block that has waited.
template <typename Lanes, typename System>
DUNLIN_DEVICE void ReadNotes(const Lanes& lanes, const System& system, const StageCall& call, uint32_t meeting) {
  const auto all = static_cast<uint32_t>(call.share.num_ranks) * kNoteWords;
  for (auto i = static_cast<uint32_t>(lanes.index()); i < all; i += static_cast<uint32_t>(lanes.count())) {
    const uint32_t rank = i / kNoteWords;
    if (rank == static_cast<uint32_t>(call.share.rank)) continue;
    const auto* const words = reinterpret_cast<const uint32_t*>(call.stages[rank][meeting % 2].note);
    reinterpret_cast<uint32_t*>(call.taken + rank)[i % kNoteWords] = system.Look(words + i % kNoteWords);
  }
}

// Block `block` of num_blocks. After the host has stopped the ranks a launch does nothing: a rank that went on would
// write over notes that another one reads.
template <typename Lanes, typename System>
DUNLIN_DEVICE void StageBlock(const Lanes& lanes, const System& system, const StageCall& call, uint32_t block,
                              uint32_t num_blocks) {
  if (call.share.counts->stopped != 0) return;
  const auto count = static_cast<uint32_t>(lanes.count());
  const uint32_t first = block * count + static_cast<uint32_t>(lanes.index());
  if (call.takes) TakeFromRanks(system, call, first, num_blocks * count);
  if (!call.gives) return;
  PutBlock(lanes, system, call, block, num_blocks);
  uint32_t meeting = 0;
  if (!MeetRanks(lanes, system, call.share, num_blocks, &meeting)) return;
  if (call.share.counts->stopped == 0) ReadNotes(lanes, system, call, meeting);
}

}  // namespace dunlin::kernels::cuda
