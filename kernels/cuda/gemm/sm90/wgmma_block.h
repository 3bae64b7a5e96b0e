// SPDX-License-Identifier: Apache-2.0
// A block of the wgmma GEMM: one warp of the last warpgroup loads stages by TMA, the other warpgroups multiply 64 rows
// each, and release a stage once the products that read it are done. Sums stay in registers until the tile's end, are
// then scaled, biased or activated and stored straight from there, while the next tile's stages are loaded.
// Tile: WgmmaTile, or SwappedTile, whose weights are on the M side; a sum's additions are the same in both. Of a
// GroupedTile each block first places the groups' tiles, whose rows are known on the device alone (wgmma_groups.h).
// Block: DeviceBlock, or a host's of the same members.
#pragma once

#include "kernels/cuda/block/tensor_core.h"
#include "kernels/cuda/gemm/sm90/wgmma_call.h"
#include "kernels/cuda/gemm/sm90/wgmma_groups.h"
#include "kernels/cuda/gemm/sm90/wgmma_pairs.h"
#include "kernels/cuda/gemm/sm90/wgmma_store.h"
#include "kernels/cuda/sm90/descriptor.h"

namespace dunlin::kernels::cuda {

// The place in the ring of stages, and the parity of its phase.
template <typename Tile>
struct WgmmaStage {
  int index = 0;
  uint32_t parity = 0;
  DUNLIN_DEVICE void Next() {
    if (++index < Tile::kStages) return;
    index = 0;
    parity ^= 1;
  }
};

template <typename Tile, typename Block>
struct WgmmaBlock {
  static constexpr int kSteps = kTileBytes / static_cast<int>(kWgmmaStepBytes);

  const Block& block;
  const WgmmaCall& call;
  uint32_t shared;

  DUNLIN_DEVICE uint32_t full(int stage) const { return shared + Tile::kBarriers + 8 * stage; }
  DUNLIN_DEVICE uint32_t empty(int stage) const { return full(stage) + 8 * Tile::kStages; }
  DUNLIN_DEVICE uint32_t in(int stage) const { return shared + stage * Tile::kStageBytes; }
  DUNLIN_DEVICE uint32_t weight(int stage) const { return in(stage) + Tile::kInBytes; }
  DUNLIN_DEVICE uint32_t in_scales(int stage) const { return shared + Tile::kScales + stage * Tile::kScaleBytes; }
  DUNLIN_DEVICE uint32_t weight_scales(int stage) const { return in_scales(stage) + Tile::kInScaleBytes; }
  DUNLIN_DEVICE WgmmaGroupTable<Tile, Block> groups() const { return {block, call, shared}; }
  DUNLIN_DEVICE int32_t tiles() const {
    if constexpr (Tile::kGrouped) {
      return groups().tiles();
    } else {
      return call.row_tiles * call.column_tiles;
    }
  }

  DUNLIN_DEVICE void Start() const {
    if (block.thread() == 0) {
      block.PrefetchMap(call.in);
      if constexpr (!Tile::kCoded) block.PrefetchMap(call.weight);
      for (int stage = 0; stage < Tile::kStages; ++stage) {
        block.InitBarrier(full(stage), 1);
        block.InitBarrier(empty(stage), 4 * Tile::kWarpgroups);  // one arrival per warp
      }
      block.FenceBarrierInit();
    }
    if constexpr (Tile::kGrouped) {
      if (block.thread() / kWarpLanes == 1) groups().Fill();
    }
    block.SyncBlock();
  }

  DUNLIN_DEVICE WgmmaPlace PlaceOf(int32_t tile) const {
    if constexpr (Tile::kGrouped) {
      return groups().PlaceOf(tile);
    } else {
      return PlaceOfTile<Tile>(call, call.row_tiles, tile);
    }
  }

  // load(stage, place, k) for the stages of this block's tiles, at most `most` of them, in order.
  template <typename Load>
  DUNLIN_DEVICE void ForStages(int32_t most, const Load& load) const {
    WgmmaStage<Tile> stage;
    const int32_t count = tiles();
    for (auto tile = static_cast<int32_t>(block.index()); tile < count; tile += static_cast<int32_t>(block.count())) {
      const WgmmaPlace place = PlaceOf(tile);
      for (int32_t k = 0; k < call.depth_tiles; ++k, stage.Next()) {
        if (most-- == 0) return;
        load(stage, place, k);
      }
    }
  }
  static constexpr int32_t kAllStages = INT32_MAX;
  static constexpr int kElements = kTileBytes / (Tile::kE4M3 ? 1 : 2);

  DUNLIN_DEVICE void LoadWeight(const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) const {
    block.ArriveExpecting(full(stage.index), Tile::kLoadedBytes);
    // Tiles of few rows read weights once.
    if constexpr (Tile::kPaired) {
      const int32_t eights = place.column / kPairedOutputs;
      // The weights of groups have one span each.
      const int32_t span = Tile::kGrouped ? place.group : eights / call.span_eights;
      block.template LoadBox<Tile::kSwapped>(weight(stage.index), call.weight, full(stage.index), k * kElements, 0, 0,
                                             Tile::kGrouped ? eights : eights - span * call.span_eights, span);
    } else if constexpr (Tile::kGrouped) {
      block.template LoadBox<Tile::kSwapped>(weight(stage.index), call.weight, full(stage.index), k * kElements,
                                             place.column, place.group);
    } else {
      block.template LoadBox<Tile::kSwapped>(weight(stage.index), call.weight, full(stage.index), k * kElements,
                                             place.column);
    }
    if constexpr (Tile::kBlockScales && Tile::kGrouped) {
      block.LoadBox(weight_scales(stage.index), call.weight_scales, full(stage.index), place.column, k, place.group);
    } else if constexpr (Tile::kBlockScales) {
      block.LoadBox(weight_scales(stage.index), call.weight_scales, full(stage.index), place.column, k);
    }
  }
  DUNLIN_DEVICE void LoadInputs(const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) const {
    block.LoadBox(in(stage.index), call.in, full(stage.index), k * kElements, place.row);
    if constexpr (Tile::kBlockScales) {
      block.LoadBox(in_scales(stage.index), call.in_scales, full(stage.index), call.in_scale_lead + place.row, k);
    }
  }

  // One thread. Of few rows the first weights fill the stages before the preceding kernel, which computes the inputs,
  // has ended (WgmmaCall::weight): all else that a block touches in global memory comes after WaitForPreceding.
  DUNLIN_DEVICE void Load() const {
    int32_t ahead = 0;
    if constexpr (Tile::kSwapped) {
      ForStages(Tile::kStages, [&](const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) {
        LoadWeight(stage, place, k);
        ++ahead;
      });
      block.WaitForPreceding();
    }
    ForStages(kAllStages, [&](const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) {
      if (--ahead < 0) {
        block.Wait(empty(stage.index), stage.parity ^ 1);
        LoadWeight(stage, place, k);
      }
      LoadInputs(stage, place, k);
    });
  }

  DUNLIN_DEVICE void Release(int stage) const {
    if (block.thread() % kWarpLanes == 0) block.Arrive(empty(stage));
  }

  // The operands of a stage: 64 rows for the M side, and the N side's from `column` on.
  DUNLIN_DEVICE uint64_t Left(int stage, int warpgroup) const {
    return WgmmaRows(Tile::kSwapped ? weight(stage) : in(stage) + warpgroup * 64 * kTileBytes);
  }
  DUNLIN_DEVICE uint64_t Right(int stage, int column) const {
    return WgmmaRows((Tile::kSwapped ? in(stage) : weight(stage)) + column * kTileBytes);
  }

  // All of K of one tile; `stage` goes on over tiles.
  template <typename Format>
  DUNLIN_DEVICE void Multiply(int warpgroup, float (&sums)[Tile::kSums], WgmmaStage<Tile>* stage) const {
    int read = 0;  // the stage that the products in flight read
    for (int32_t k = 0; k < call.depth_tiles; ++k) {
      block.Wait(full(stage->index), stage->parity);
      const uint64_t a = Left(stage->index, warpgroup);
      const uint64_t b = Right(stage->index, 0);
      block.FenceProducts();
      DUNLIN_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        block.template Multiply<Format, Tile::kProductColumns>(sums, a + step * kDescriptorStep,
                                                               b + step * kDescriptorStep, k > 0 || step > 0);
      }
      block.CommitProducts();
      if (k > 0) {
        block.template WaitForProducts<1>();
        Release(read);
      }
      read = stage->index;
      stage->Next();
    }
    block.template WaitForProducts<0>();
    Release(read);
  }

  // sums += products of 128 of K, of columns from `column` on; each times its scales with block scales.
  template <int kCount>
  DUNLIN_DEVICE void AddProducts(int stage, int warpgroup, int column, const float (&products)[kCount],
                                 float (&sums)[Tile::kSums]) const {
    if constexpr (!Tile::kBlockScales) {
      DUNLIN_UNROLL
      for (int i = 0; i < kCount; ++i) sums[column / 2 + i] += products[i];
    } else {
      const uint32_t left_scales = Tile::kSwapped ? weight_scales(stage) : in_scales(stage);
      const uint32_t right_scales = Tile::kSwapped ? in_scales(stage) : weight_scales(stage);
      const int thread = block.thread() % 128;
      const int row = warpgroup * 64 + WgmmaSlot::Row(thread, 0);
      const bool loaded = !Tile::kSwapped || row < Tile::kColumns;  // 16 at a time
      const float left[2] = {loaded ? block.LoadFloat(left_scales + 4 * row) : 0.0F,
                             loaded ? block.LoadFloat(left_scales + 4 * row + 32) : 0.0F};
      DUNLIN_UNROLL
      for (int i = 0; i < kCount; i += 4) {
        float right[2];
        block.LoadFloats(right, right_scales + 4 * (column + WgmmaSlot::Column(thread, i)));
        DUNLIN_UNROLL
        for (int j = 0; j < 4; ++j) {
          float& sum = sums[column / 2 + i + j];
          sum = fmaf(products[i + j], left[j / 2] * right[j % 2], sum);
        }
      }
    }
  }

  // The same for E4M3, whose accumulators keep 14 bits: the products of each 128 of K are added to FP32 sums in
  // registers, kPartColumns columns at a time.
  DUNLIN_DEVICE void MultiplyPromoted(int warpgroup, float (&sums)[Tile::kSums], WgmmaStage<Tile>* stage) const {
    constexpr int kPartColumns = Tile::kProductColumns < 128 ? Tile::kProductColumns : 128;
    DUNLIN_UNROLL
    for (int i = 0; i < Tile::kSums; ++i) sums[i] = 0.0F;
    for (int32_t k = 0; k < call.depth_tiles; ++k) {
      block.Wait(full(stage->index), stage->parity);
      const uint64_t a = Left(stage->index, warpgroup);
      DUNLIN_UNROLL
      for (int part = 0; part < Tile::kProductColumns / kPartColumns; ++part) {
        const uint64_t b = Right(stage->index, part * kPartColumns);
        float products[kPartColumns / 2];
        block.FenceProducts();
        DUNLIN_UNROLL
        for (int step = 0; step < kSteps; ++step) {
          block.template Multiply<typename Tile::Format, kPartColumns>(products, a + step * kDescriptorStep,
                                                                       b + step * kDescriptorStep, step > 0);
        }
        block.CommitProducts();
        block.template WaitForProducts<0>();
        const bool last = (part + 1) * kPartColumns == Tile::kProductColumns;
        if (last && !Tile::kBlockScales) Release(stage->index);
        AddProducts(stage->index, warpgroup, part * kPartColumns, products, sums);
      }
      if constexpr (Tile::kBlockScales) {
        block.SyncWarp();  // all lanes have read their scales
        Release(stage->index);
      }
      stage->Next();
    }
  }

  // Gates are of 16 bits, and those of groups have kernels of their own.
  DUNLIN_DEVICE void StorePaired(const WgmmaPlace& place, int warpgroup, const float (&sums)[Tile::kSums]) const {
    constexpr bool kGates = !Tile::kE4M3;
    if constexpr (kGates && !Tile::kGrouped) {
      if (call.paired.use == GemmOutputs::kHeads) return StorePairsAs<GemmOutputs::kHeads>(place, warpgroup, sums);
    }
    StorePairsAs<kGates ? GemmOutputs::kGated : GemmOutputs::kHeads>(place, warpgroup, sums);
  }
  template <GemmOutputs kUse>
  DUNLIN_DEVICE void StorePairsAs(const WgmmaPlace& place, int warpgroup, const float (&sums)[Tile::kSums]) const {
    if constexpr (Tile::kSwapped) {
      StoreSwappedPairs<Tile, kUse>(call, place, block.thread() % 128, sums);
    } else {
      StorePairs<Tile, kUse>(call, place, warpgroup, block.thread() % 128, sums);
    }
  }

  template <bool kActivated>
  DUNLIN_DEVICE void StoreTile(const WgmmaPlace& place, int warpgroup, const float (&sums)[Tile::kSums]) const {
    if constexpr (Tile::kPaired) {
      StorePaired(place, warpgroup, sums);
    } else if constexpr (Tile::kSwapped) {
      StoreSwappedRows<Tile, kActivated>(call, place, block.thread() % 128, sums);
    } else {
      StoreRows<Tile, kActivated>(call, place, warpgroup, block.thread() % 128, sums);
    }
  }

  DUNLIN_DEVICE void Compute(int warpgroup) const {
    if constexpr (Tile::kSwapped) block.WaitForPreceding();  // residuals and scales of rows
    WgmmaStage<Tile> stage;
    const int32_t count = tiles();
    for (auto tile = static_cast<int32_t>(block.index()); tile < count; tile += static_cast<int32_t>(block.count())) {
      float sums[Tile::kSums];
      const WgmmaPlace place = PlaceOf(tile);
      if constexpr (Tile::kE4M3) {
        MultiplyPromoted(warpgroup, sums, &stage);
      } else {
        if (call.fp16) {
          Multiply<Fp16Format>(warpgroup, sums, &stage);
        } else {
          Multiply<Bf16Format>(warpgroup, sums, &stage);
        }
        if constexpr (!Tile::kPaired) {
          if (call.store.next != nullptr) {
            StoreTile<true>(place, warpgroup, sums);
            continue;
          }
        }
      }
      StoreTile<false>(place, warpgroup, sums);
    }
  }
};

template <typename Tile, typename Block>
DUNLIN_DEVICE void RunWgmmaGemm(const Block& block, const WgmmaCall& call) {
  const WgmmaBlock<Tile, Block> gemm{block, call, block.SharedBase()};
  if constexpr (Tile::kSwapped) block.LaunchDependents();
  gemm.Start();
  const int warpgroup = block.thread() / 128;
  if (warpgroup == Tile::kWarpgroups) {
    if constexpr (Tile::kMovesRegisters) block.template LowerRegisters<Tile::kLoadRegisters>();
    if (block.thread() == Tile::kWarpgroups * 128) gemm.Load();
  } else {
    if constexpr (Tile::kMovesRegisters) block.template RaiseRegisters<Tile::kMultiplyRegisters>();
    gemm.Compute(warpgroup);
  }
}

}  // namespace dunlin::kernels::cuda
