// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma over latent rows and heads of up to 512 dims (WgmmaSharedRowsShape): two warpgroups multiply the same
// 64 rows. Of a tile, the scores are issued before the previous tile's weights are multiplied by its values, so that
// the tensor cores work while weights are computed. Of tiles that some row sees only in part, elements of values that
// are not finite are taken out after the scores, which values in keys are needed for; of codes while they are widened.
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_load.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_queries.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_rows.h"

namespace dunlin::kernels::cuda {

template <typename Shape, typename Block>
struct WgmmaSharedWork {
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
    // Not kept in registers for each step.
    const uint64_t queries = WgmmaRows(at.block.Again(at.queries(0)));
    const uint64_t keys = WgmmaRows(at.block.Again(at.keys(stage)) + warpgroup * Shape::kScoreKeys * kSwizzleRowBytes);
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
    const uint32_t columns = at.values(stage) + warpgroup * (Shape::kColumns / 64) * Shape::kSliceBytes;
    const uint64_t values = WgmmaColumns(columns, Shape::kSliceBytes, 8 * kSwizzleRowBytes);
    DUNLIN_UNROLL
    for (int step = 0; step < Shape::kTileKeys / 16; ++step) {
      at.block.template Multiply<Format, Shape::kColumns, true>(
          own->out, weights + step * kDescriptorStep, values + step * (16 * kSwizzleRowBytes / 16), add || step > 0);
    }
    at.block.CommitProducts();
  }

  // The scores of `tile` have been waited for: they become weights. Keys that hold no values are free.
  DUNLIN_DEVICE void ToWeights(int32_t tile, bool begins_split, const WgmmaFlashStage& keys, float (&rescale)[2],
                               State* own) const {
    if constexpr (Shape::kCodes) of.ScaleProducts(keys.index, warpgroup, thread, own);
    if constexpr (!Shape::kValuesInKeys) at.Release(thread, at.keys_empty(keys.index));
    if (at.Cut(tile)) of.Mask(tile, warpgroup, thread, own);
    if (begins_split) of.BeginSplit(own);
    float largest[2];
    of.FindLargest(*own, largest);
    float others[2];
    of.Exchange(at.maxima(), largest, warpgroup, thread, others);
    DUNLIN_UNROLL
    for (int half = 0; half < 2; ++half) largest[half] = fmaxf(largest[half], others[half]);
    of.Weigh(largest, own, rescale);
    if constexpr (Shape::kCodes) {
      static_assert(Shape::kStages == 1, "the scales' phase is that of the keys");
      at.block.Wait(at.value_scales_full(), keys.parity);
      of.ScaleWeights(warpgroup, thread, own);
      at.Release(thread, at.value_scales_empty());
    }
    of.RoundWeights(own);
  }

  // The weights to shared memory, where both warpgroups have multiplied those of the tile before. Returns whether
  // values of the tile were taken out here. values: where the tile's are.
  DUNLIN_DEVICE bool StoreWeights(int32_t tile, const WgmmaFlashStage& values, const State& own) const {
    const bool cleans = !Shape::kCodes && at.Cut(tile);
    if (cleans) {
      if constexpr (!Shape::kValuesInKeys) at.block.Wait(at.values_full(values.index), values.parity);
      Clean(tile, values.index);
    }
    SyncAll();
    DUNLIN_UNROLL
    for (int i = 0; i < Shape::kScoreKeys / 4; ++i) {
      const int row = of.RowOf(0, thread, i % 2);
      const int key = of.KeyOf(warpgroup, thread, 2 * i);
      at.block.StoreWord(at.weights() + Swizzled(row * kSwizzleRowBytes + key * 2), own.weights[i / 4][i % 4]);
    }
    at.block.FenceAsync();
    SyncAll();
    return cleans && FindsFlag(0, kThreads / kWarpLanes);
  }

  DUNLIN_DEVICE bool FindsFlag(int stage, int words) const {
    bool found = false;
    DUNLIN_UNROLL
    for (int word = 0; word < words; ++word) found |= at.block.LoadWord(at.flag(stage) + 4 * word) != 0;
    return found;
  }

  // Zeros for values that no row sees or that are not finite, whose scores both warpgroups have; and the warp's flag.
  DUNLIN_DEVICE void Clean(int32_t tile, int stage) const {
    const int all = warpgroup * 128 + thread;
    uint32_t found = 0;
    DUNLIN_NO_UNROLL
    for (uint32_t offset = all * kPieceBytes; offset < Shape::kValueDim / 64 * Shape::kSliceBytes;
         offset += kThreads * kPieceBytes) {
      const auto row = static_cast<int32_t>(offset / kSwizzleRowBytes % Shape::kTileKeys);
      const bool present = tile * Shape::kTileKeys + row < at.task.rows.sequence.kv_len;
      if (CleanPiece<Format>(at.block, at.values(stage) + offset, present) && present) found = 1;
    }
    DUNLIN_UNROLL
    for (int mask = 1; mask < kWarpLanes; mask *= 2) found |= at.block.ShuffleXor(found, mask);
    if (thread % kWarpLanes == 0) at.block.StoreWord(at.flag(0) + 4 * (all / kWarpLanes), found);
  }

  // The products of `tile` have been waited for: its values' stage is free, and the outputs are complete up to it.
  DUNLIN_DEVICE void EndTile(int32_t tile, int stage, bool non_finite, State* own) const {
    if constexpr (Shape::kCodes) non_finite = at.Cut(tile) && FindsFlag(stage, Shape::kWideners);
    at.Release(thread, Shape::kValuesInKeys ? at.keys_empty(stage) : at.values_empty(stage));
    if (non_finite) of.AddNonFinite(tile, warpgroup, thread, own);
  }

  // Values in keys have come with these.
  DUNLIN_DEVICE void WaitForValues(const WgmmaFlashStage& values) const {
    if constexpr (!Shape::kValuesInKeys) {
      at.block.Wait(at.values_full(values.index), values.parity);
      at.block.FenceProducts();
    }
  }

  DUNLIN_DEVICE void Multiply(WgmmaFlashStage* keys, WgmmaFlashStage* values, State* own) const {
    bool first_split = true;
    bool add = false;
    float rescale[2];
    at.block.Wait(at.keys_full(keys->index), keys->parity);
    at.block.FenceProducts();
    IssueScores(keys->index, own);
    at.block.template WaitForProducts<0>();
    ToWeights(at.task.tiles.first, false, *keys, rescale, own);
    bool non_finite = StoreWeights(at.task.tiles.first, *values, *own);
    keys->Next(Shape::kStages);
    DUNLIN_NO_UNROLL
    for (int32_t tile = at.task.tiles.first + 1; tile < at.task.tiles.end; ++tile) {
      const bool begins_split = at.BeginsSplit(tile);
      at.block.Wait(at.keys_full(keys->index), keys->parity);
      at.block.FenceProducts();
      IssueScores(keys->index, own);
      WaitForValues(*values);
      IssueValues(values->index, add, own);
      at.block.template WaitForProducts<1>();
      const float maximum[2] = {own->maximum[0], own->maximum[1]};
      const float sum[2] = {own->sum[0], own->sum[1]};
      ToWeights(tile, begins_split, *keys, rescale, own);
      // Complete; its branches keep ptxas from moving the wait for the values' products in front of the exponentials.
      if constexpr (Shape::kValuesInKeys) {
        at.block.Wait(at.keys_full(keys->index), keys->parity);
      } else {
        at.block.Wait(at.values_full(values->index), values->parity);
      }
      at.block.template WaitForProducts<0>();
      EndTile(tile - 1, values->index, non_finite, own);
      values->Next(Shape::kStages);
      if (begins_split) {
        of.EndSplit(maximum, sum, first_split, false, warpgroup, thread, own);
        first_split = false;
      } else {
        of.Rescale(rescale, own);
      }
      non_finite = StoreWeights(tile, *values, *own);
      add = !begins_split;
      keys->Next(Shape::kStages);
    }
    WaitForValues(*values);
    at.block.FenceProducts();
    IssueValues(values->index, add, own);
    at.block.template WaitForProducts<0>();
    EndTile(at.task.tiles.end - 1, values->index, non_finite, own);
    values->Next(Shape::kStages);
    if (at.flash.parts.data == nullptr) {
      of.EndSplit(own->maximum, own->sum, first_split, true, warpgroup, thread, own);
    }
  }

  DUNLIN_DEVICE void Run(WgmmaFlashRings* rings) const {
    State own;
    of.FindRows(warpgroup, thread, &own);
    of.BeginSplit(&own);
    if (at.task.tiles.first >= at.task.tiles.end) return of.StoreZeros(warpgroup, thread, &own);
    const WgmmaFlashQueries<Shape, Block> load{at};
    // Both warpgroups have the last scores of the task before, since they stored their weights.
    load.template Load<kThreads>(0, at.queries(0), warpgroup * 128 + thread);
    at.block.FenceAsync();
    SyncAll();
    Multiply(&rings->keys, &rings->values, &own);
    of.Store(warpgroup, thread, own);
  }
};

}  // namespace dunlin::kernels::cuda
