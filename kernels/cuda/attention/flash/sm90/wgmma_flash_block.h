// SPDX-License-Identifier: Apache-2.0
// FLASH by wgmma of heads of up to 256 dims: one or two warpgroups multiply 64 rows each. Of a tile, the products of
// queries and keys are issued before the previous tile's weights are multiplied by its values, so that the tensor cores
// work while the tile's weights are computed; two warpgroups take turns at issuing, so that one computes weights while
// the other multiplies. Weights stay in registers, as operand A. Block: DeviceBlock, or a host's of the same members.
// Source: Shah et al. 2024 (FlashAttention-3), section 3.
#pragma once

#include "kernels/cuda/attention/flash/sm90/wgmma_flash_load.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_queries.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_rows.h"
#include "kernels/cuda/attention/flash/sm90/wgmma_flash_scores.h"

namespace dunlin::kernels::cuda {

template <typename Shape, typename Block>
struct WgmmaFlashWork {
  using State = WgmmaFlashState<Shape>;
  using Format = typename Shape::Format;
  static constexpr int kTurn = 1;     // named barriers: kTurn + warpgroup, all that multiply
  static constexpr int kQueries = 3;  // kQueries + warpgroup, one warpgroup

  const WgmmaFlashBlock<Shape, Block>& at;
  WgmmaFlashRows<Shape, Block> of;
  int warpgroup;
  int thread;  // of the warpgroup

  // Scores of a stage of keys; and weights times a stage of values, added to the outputs or, at a split's start, not.
  DUNLIN_DEVICE void IssueScores(int stage, State* own) const {
    constexpr int kSteps = kSwizzleRowBytes / kWgmmaStepBytes;
    // Not kept in registers for each step.
    const uint64_t queries = WgmmaRows(at.block.Again(at.queries(warpgroup)));
    const uint64_t keys = WgmmaRows(at.keys(stage));
    DUNLIN_UNROLL
    for (int step = 0; step < Shape::kDim / 16; ++step) {
      const uint64_t in_slice = step % kSteps * kDescriptorStep;
      at.block.template Multiply<Format, Shape::kTileKeys>(
          own->scores, queries + step / kSteps * (Shape::kQuerySliceBytes / 16) + in_slice,
          keys + step / kSteps * (Shape::kSliceBytes / 16) + in_slice, step > 0);
    }
    at.block.CommitProducts();
  }
  DUNLIN_DEVICE void IssueValues(int stage, bool add, State* own) const {
    DUNLIN_UNROLL
    for (int step = 0; step < Shape::kTileKeys / 16; ++step) {
      const uint64_t b =
          WgmmaColumns(at.values(stage) + step * 16 * kSwizzleRowBytes, Shape::kSliceBytes, 8 * kSwizzleRowBytes);
      at.block.template Multiply<Format, Shape::kDim, true>(own->out, own->weights[step], b, add || step > 0);
    }
    at.block.CommitProducts();
  }

  // The turn to issue products, and its end. From one task to the next, too, none is passed before the last one was
  // taken: the keys of the tile come into the stage of two tiles before, which both warpgroups have released.
  DUNLIN_DEVICE bool takes_turns() const { return Shape::kWarpgroups == 2 && at.warpgroups() == 2; }
  DUNLIN_DEVICE void TakeTurn() const {
    if (takes_turns()) at.block.SyncNamed(kTurn + warpgroup, 256);
  }
  // last: no warpgroup takes another turn.
  DUNLIN_DEVICE void PassTurn(bool last) const {
    if (takes_turns() && !last) at.block.ArriveNamed(kTurn + 1 - warpgroup, 256);
  }

  // The products of `tile` have been waited for: its values' stage is free, and the outputs are complete up to it.
  DUNLIN_DEVICE void EndTile(int32_t tile, int stage, State* own) const {
    bool non_finite = false;
    if (at.Cut(tile)) {
      constexpr int kWords = Shape::kCodes ? Shape::kWideners : 1;
      DUNLIN_UNROLL
      for (int word = 0; word < kWords; ++word) {
        if (at.block.LoadWord(at.flag(stage) + 4 * word) != 0) non_finite = true;
      }
    }
    at.Release(thread, at.values_empty(stage));
    if (non_finite) of.AddNonFinite(tile, warpgroup, thread, own);
  }

  // The products of `tile` have been waited for: they become weights, and its keys' stage is free.
  DUNLIN_DEVICE void ToWeights(int32_t tile, bool begins_split, const WgmmaFlashStage& keys, float (&rescale)[2],
                               State* own) const {
    if constexpr (Shape::kCodes) of.ScaleProducts(keys.index, warpgroup, thread, own);
    at.Release(thread, at.keys_empty(keys.index));
    if constexpr (Shape::kAdjusts) WgmmaFlashScores<Shape, Block>{at}.Adjust(tile, warpgroup, thread, own);
    if (at.Cut(tile)) of.Mask(tile, warpgroup, thread, own);
    if (begins_split) of.BeginSplit(own);
    float largest[2];
    of.FindLargest(*own, largest);
    of.Weigh(largest, own, rescale);
    if constexpr (Shape::kCodes) {
      static_assert(Shape::kStages == 2, "the scales' phase is the place of the tile in the ring of keys");
      at.block.Wait(at.value_scales_full(), static_cast<uint32_t>(keys.index));
      of.ScaleWeights(warpgroup, thread, own);
      at.Release(thread, at.value_scales_empty());
    }
  }

  // Scores of `tile`, whose keys have been waited for, while the previous tile's weights are multiplied by its values;
  // then the tile's weights, and what the outputs so far become.
  DUNLIN_DEVICE void Step(int32_t tile, bool add, bool* first_split, WgmmaFlashStage* keys, WgmmaFlashStage* values,
                          State* own) const {
    const bool begins_split = at.BeginsSplit(tile);
    TakeTurn();
    at.block.FenceProducts();
    IssueScores(keys->index, own);
    at.block.Wait(at.values_full(values->index), values->parity);
    at.block.FenceProducts();
    IssueValues(values->index, add, own);
    PassTurn(warpgroup == 1 && tile + 1 == at.task.tiles.end);
    at.block.template WaitForProducts<1>();
    const float maximum[2] = {own->maximum[0], own->maximum[1]};
    const float sum[2] = {own->sum[0], own->sum[1]};
    float rescale[2];
    ToWeights(tile, begins_split, *keys, rescale, own);
    keys->Next(Shape::kStages);
    // Waits for the next keys here: its branches keep ptxas from moving the wait for the values' products in front of
    // the exponentials.
    if (tile + 1 < at.task.tiles.end) at.block.Wait(at.keys_full(keys->index), keys->parity);
    at.block.template WaitForProducts<0>();
    EndTile(tile - 1, values->index, own);
    values->Next(Shape::kStages);
    of.RoundWeights(own);
    if (begins_split) {
      of.EndSplit(maximum, sum, *first_split, false, warpgroup, thread, own);
      *first_split = false;
    } else {
      of.Rescale(rescale, own);
    }
  }

  DUNLIN_DEVICE void Multiply(WgmmaFlashStage* keys, WgmmaFlashStage* values, State* own) const {
    bool first_split = true;
    float rescale[2];
    at.block.Wait(at.keys_full(keys->index), keys->parity);
    at.block.FenceProducts();
    IssueScores(keys->index, own);
    at.block.template WaitForProducts<0>();
    ToWeights(at.task.tiles.first, false, *keys, rescale, own);
    keys->Next(Shape::kStages);
    if (at.task.tiles.first + 1 < at.task.tiles.end) at.block.Wait(at.keys_full(keys->index), keys->parity);
    of.RoundWeights(own);
    bool add = false;
    DUNLIN_NO_UNROLL
    for (int32_t tile = at.task.tiles.first + 1; tile < at.task.tiles.end; ++tile) {
      Step(tile, add, &first_split, keys, values, own);
      add = !at.BeginsSplit(tile);
    }
    at.block.Wait(at.values_full(values->index), values->parity);
    at.block.FenceProducts();
    IssueValues(values->index, add, own);
    at.block.template WaitForProducts<0>();
    EndTile(at.task.tiles.end - 1, values->index, own);
    values->Next(Shape::kStages);
    if (at.flash.parts.data == nullptr) {
      of.EndSplit(own->maximum, own->sum, first_split, true, warpgroup, thread, own);
    }
  }

  DUNLIN_DEVICE void Run(WgmmaFlashRings* rings) const {
    State own;
    of.FindRows(warpgroup, thread, &own);
    if constexpr (Shape::kAdjusts) WgmmaFlashScores<Shape, Block>{at}.FindSlopes(warpgroup, thread, &own);
    of.BeginSplit(&own);
    if (at.task.tiles.first >= at.task.tiles.end) return of.StoreZeros(warpgroup, thread, &own);
    if (warpgroup == 0 && at.task.tiles.first + 1 < at.task.tiles.end && takes_turns()) {
      at.block.ArriveNamed(kTurn, 256);  // the first turn
    }
    // No warp multiplies by the last task's queries any more.
    if constexpr (Shape::kPersistent) at.block.SyncNamed(kQueries + warpgroup, 128);
    const WgmmaFlashQueries<Shape, Block> load{at};
    load.template Load<128>(warpgroup * 64, at.queries(warpgroup), thread);
    at.block.FenceAsync();
    at.block.SyncNamed(kQueries + warpgroup, 128);
    Multiply(&rings->keys, &rings->values, &own);
    of.Store(warpgroup, thread, own);
  }
};

}  // namespace dunlin::kernels::cuda
