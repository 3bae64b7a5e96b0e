// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma over latent rows (WgmmaLatentShape): one warp loads tiles of keys, two warpgroups multiply the same 64
// rows. Of a tile, the scores are issued before the previous tile's weights are multiplied by its values, so that the
// tensor cores work while weights are computed. Of tiles that some row sees only in part, elements of values that are
// not finite are taken out after the scores, where both lie.
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_load.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_queries.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_rows.h"

namespace dunlin::kernels::cuda {

template <typename Shape, typename Block>
struct WgmmaLatentWork {
  using State = WgmmaFlashState<Shape>;
  using Format = typename Shape::Format;
  static constexpr int kAll = 4;  // a named barrier: both warpgroups
  static constexpr int kThreads = 128 * Shape::kWarpgroups;

  const WgmmaFlashBlock<Shape, Block>& at;
  WgmmaFlashRows<Shape, Block> of;
  int warpgroup;
  int thread;  // of the warpgroup

  DUNLIN_DEVICE void SyncAll() const { at.block.SyncNamed(kAll, kThreads); }

  DUNLIN_DEVICE void IssueScores(int stage, State* own) const {
    constexpr int kSteps = kSwizzleRowBytes / kWgmmaStepBytes;
    const uint64_t queries = WgmmaRows(at.block.Again(at.queries(0)));
    const uint64_t keys = WgmmaRows(at.keys(stage) + warpgroup * Shape::kScoreKeys * kSwizzleRowBytes);
    DUNLIN_UNROLL
    for (int step = 0; step < Shape::kDim / 16; ++step) {
      const uint64_t in_slice = step % kSteps * kDescriptorStep;
      at.block.template Multiply<Format, Shape::kScoreKeys>(
          own->scores, queries + step / kSteps * (Shape::kQuerySliceBytes / 16) + in_slice,
          keys + step / kSteps * (Shape::kSliceBytes / 16) + in_slice, step > 0);
    }
    at.block.CommitProducts();
  }
  DUNLIN_DEVICE void IssueValues(int stage, bool add, State* own) const {
    const uint64_t weights = WgmmaRows(at.block.Again(at.weights()));
    const int slice = Shape::kFirstValueSlice + warpgroup * (Shape::kColumns / 64);
    const uint64_t values =
        WgmmaColumns(at.keys(stage) + slice * Shape::kSliceBytes, Shape::kSliceBytes, 8 * kSwizzleRowBytes);
    DUNLIN_UNROLL
    for (int step = 0; step < Shape::kTileKeys / 16; ++step) {
      at.block.template Multiply<Format, Shape::kColumns, true>(
          own->out, weights + step * kDescriptorStep, values + step * (16 * kSwizzleRowBytes / 16), add || step > 0);
    }
    at.block.CommitProducts();
  }

  // The scores of `tile` have been waited for: they become weights.
  DUNLIN_DEVICE void ToWeights(int32_t tile, bool begins_split, float (&rescale)[2], State* own) const {
    if (at.Cut(tile)) of.Mask(tile, warpgroup, thread, own);
    if (begins_split) of.BeginSplit(own);
    float largest[2];
    of.FindLargest(*own, largest);
    float others[2];
    of.Exchange(at.maxima(), largest, warpgroup, thread, others);
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) largest[half] = fmaxf(largest[half], others[half]);
    of.Weigh(largest, own, rescale);
    of.RoundWeights(own);
  }

  // The weights to shared memory, where both warpgroups have multiplied those of the tile before. Returns whether
  // values of the tile were taken out.
  DUNLIN_DEVICE bool StoreWeights(int32_t tile, int stage, const State& own) const {
    const bool cut = at.Cut(tile);
    if (cut) Clean(tile, stage);
    SyncAll();
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 4; ++i) {
      const int row = of.RowOf(0, thread, i % 2);
      const int key = of.KeyOf(warpgroup, thread, 2 * i);
      at.block.StoreWord(at.weights() + Swizzled(row * kSwizzleRowBytes + key * 2), own.weights[i / 4][i % 4]);
    }
    at.block.FenceAsync();
    SyncAll();
    bool found = false;
    if (cut) {
      DUNLIN_UNROLL
      for (int warp = 0; warp < kThreads / kWarpLanes; ++warp) found |= at.block.LoadWord(at.flags() + 4 * warp) != 0;
    }
    return found;
  }

  // Zeros for values that no row sees or that are not finite, whose scores both warpgroups have; and the warp's flag.
  DUNLIN_DEVICE void Clean(int32_t tile, int stage) const {
    const int all = warpgroup * 128 + thread;
    const uint32_t values = at.keys(stage) + Shape::kFirstValueSlice * Shape::kSliceBytes;
    uint32_t found = 0;
    DUNLIN_NO_UNROLL
    for (uint32_t offset = all * kPieceBytes; offset < Shape::kValueDim / 64 * Shape::kSliceBytes;
         offset += kThreads * kPieceBytes) {
      const auto row = static_cast<int32_t>(offset / kSwizzleRowBytes % Shape::kTileKeys);
      const bool present = tile * Shape::kTileKeys + row < at.task.rows.sequence.kv_len;
      if (CleanPiece<Format>(at.block, values + offset, present) && present) found = 1;
    }
    DUNLIN_UNROLL
    for (int mask = 1; mask < kWarpLanes; mask *= 2) found |= at.block.ShuffleXor(found, mask);
    if (thread % kWarpLanes == 0) at.block.StoreWord(at.flags() + 4 * (all / kWarpLanes), found);
  }

  // The products of `tile` have been waited for: its stage is free, and the outputs are complete up to it.
  DUNLIN_DEVICE void EndTile(int32_t tile, int stage, bool non_finite, State* own) const {
    at.block.SyncWarp();
    if (thread % kWarpLanes == 0) at.block.Arrive(at.keys_empty(stage));
    if (non_finite) of.AddNonFinite(tile, warpgroup, thread, own);
  }

  DUNLIN_DEVICE void Multiply(WgmmaFlashStage* keys, State* own) const {
    bool first_split = true;
    bool add = false;
    float rescale[2];
    at.block.Wait(at.keys_full(keys->index), keys->parity);
    at.block.FenceProducts();
    IssueScores(keys->index, own);
    at.block.template WaitForProducts<0>();
    ToWeights(at.task.tiles.first, false, rescale, own);
    bool non_finite = StoreWeights(at.task.tiles.first, keys->index, *own);
    int stage = keys->index;  // of the tile before
    keys->Next();
    DUNLIN_NO_UNROLL
    for (int32_t tile = at.task.tiles.first + 1; tile < at.task.tiles.end; ++tile) {
      const bool begins_split = at.BeginsSplit(tile);
      at.block.Wait(at.keys_full(keys->index), keys->parity);
      at.block.FenceProducts();
      IssueScores(keys->index, own);
      IssueValues(stage, add, own);
      at.block.template WaitForProducts<1>();
      const float maximum[2] = {own->maximum[0], own->maximum[1]};
      const float sum[2] = {own->sum[0], own->sum[1]};
      ToWeights(tile, begins_split, rescale, own);
      // Complete; its branches keep ptxas from moving the wait for the values' products in front of the exponentials.
      at.block.Wait(at.keys_full(keys->index), keys->parity);
      at.block.template WaitForProducts<0>();
      EndTile(tile - 1, stage, non_finite, own);
      if (begins_split) {
        of.EndSplit(maximum, sum, first_split, false, warpgroup, thread, own);
        first_split = false;
      } else {
        of.Rescale(rescale, own);
      }
      non_finite = StoreWeights(tile, keys->index, *own);
      add = !begins_split;
      stage = keys->index;
      keys->Next();
    }
    at.block.FenceProducts();
    IssueValues(stage, add, own);
    at.block.template WaitForProducts<0>();
    EndTile(at.task.tiles.end - 1, stage, non_finite, own);
    if (at.flash.parts.data == nullptr) {
      of.EndSplit(own->maximum, own->sum, first_split, true, warpgroup, thread, own);
    }
  }

  DUNLIN_DEVICE void Run(WgmmaFlashStage* keys) const {
    State own;
    of.FindRows(warpgroup, thread, &own);
    of.BeginSplit(&own);
    if (at.task.tiles.first >= at.task.tiles.end) {  // no row sees a key
      DUNLIN_UNROLL
      for (float& value : own.out) value = 0.0F;
      of.StoreRows(warpgroup, thread, own);
      return;
    }
    const WgmmaFlashQueries<Shape, Block> load{at};
    // Both warpgroups have the last scores of the task before, since they stored their weights.
    load.template Load<kThreads>(0, at.queries(0), warpgroup * 128 + thread);
    at.block.FenceAsync();
    SyncAll();
    Multiply(keys, &own);
    if (at.flash.parts.data == nullptr) {
      of.StoreRows(warpgroup, thread, own);
    } else {
      of.StorePart(warpgroup, thread, own);
    }
  }
};

template <typename Shape, typename Block>
DUNLIN_DEVICE void RunWgmmaLatent(const Block& block, const WgmmaFlashCall& flash) {
  block.LaunchDependents();
  block.WaitForPreceding();
  WgmmaFlashTask task;
  int32_t turn = 0;
  const auto next = [&] {
    return FindWgmmaFlashTask<Shape>(flash, static_cast<int32_t>(block.index()), static_cast<int32_t>(block.count()),
                                     &turn, &task);
  };
  const WgmmaFlashBlock<Shape, Block> at{block, flash, task, block.SharedBase()};
  if (block.thread() == 0) {
    block.PrefetchMap(flash.keys);
    DUNLIN_UNROLL
    for (int stage = 0; stage < kWgmmaStages; ++stage) {
      block.InitBarrier(at.keys_full(stage), 1);
      block.InitBarrier(at.keys_empty(stage), 4 * Shape::kWarpgroups);
    }
    block.FenceBarrierInit();
  }
  block.SyncBlock();
  WgmmaFlashStage keys;
  const int warpgroup = block.thread() / 128;
  if (warpgroup >= Shape::kWarpgroups) {
    block.template LowerRegisters<Shape::kLoadRegisters>();
    if (block.thread() / kWarpLanes > 4 * Shape::kWarpgroups) return;
    const WgmmaFlashLoader<Shape, Block> loader{at};
    while (next()) loader.LoadKeys(block.thread() % kWarpLanes, &keys);
    return;
  }
  block.template RaiseRegisters<Shape::kRegisters>();
  while (next()) {
    const WgmmaLatentWork<Shape, Block> work{
        at, {at, WgmmaFlashFactor(flash.call)}, warpgroup, block.Again(block.thread() % 128)};
    work.Run(&keys);
  }
}

}  // namespace dunlin::kernels::cuda
