// SPDX-License-Identifier: Apache-2.0
// A block of the wgmma GEMM on an ExpandedTile: one warp loads codes, the numbers of their groups and inputs, some
// expand them to BF16 in shared memory, and warpgroups multiply. Sums have the bits that the expanded weight would give
// the wgmma GEMM.
#pragma once

#include "kernels/cuda/gemm/sm90/coded_wgmma_block.h"
#include "kernels/cuda/gemm/sm90/expanded_tile.h"

namespace dunlin::kernels::cuda {

template <typename Tile, typename Block>
struct ExpandedWgmmaBlock : WgmmaBlock<Tile, Block> {
  using Base = WgmmaBlock<Tile, Block>;
  using Base::block;
  using Base::call;
  using Base::shared;

  DUNLIN_DEVICE uint32_t coded(int stage) const { return shared + Tile::kCodedBarriers + 8 * stage; }
  DUNLIN_DEVICE uint32_t codes(int stage) const { return Base::in(stage) + Tile::kInBytes; }
  DUNLIN_DEVICE uint32_t numbers(int stage) const { return codes(stage) + Tile::kCodeBytes; }
  DUNLIN_DEVICE uint32_t expanded(int stage) const {
    return shared + Tile::kSlotsAt + stage % Tile::kSlots * Tile::kSlotBytes;
  }

  // A stage is full when its inputs have arrived and its kGroups groups of rows are expanded.
  DUNLIN_DEVICE void Start() const {
    if (block.thread() == 0) {
      block.PrefetchMap(call.in);
      for (int stage = 0; stage < Tile::kStages; ++stage) {
        block.InitBarrier(Base::full(stage), 1 + Tile::kGroups);
        block.InitBarrier(Base::empty(stage), 4 * Tile::kWarpgroups);
        block.InitBarrier(coded(stage), 1);
      }
      block.FenceBarrierInit();
    }
    if constexpr (Tile::kGrouped) {
      if (block.thread() / kWarpLanes == 1) Base::groups().Fill();
    }
    block.SyncBlock();
  }

  // --- One thread loads. Rows of codes are padded to 16; those past them are not loaded, and nothing of theirs is
  // stored.
  DUNLIN_DEVICE void LoadCodeRows(int stage, const WgmmaPlace& place, int32_t k) const {
    const CodedView& weight = call.coded;
    const auto code_bytes = static_cast<uint32_t>(weight.format.code_bytes());
    const auto number_bytes = static_cast<uint32_t>(weight.format.number_bytes);
    const int64_t left = PaddedRows(weight.rows) - place.column;
    const auto rows = static_cast<uint32_t>(left < Tile::kColumns ? left : Tile::kColumns);
    const int64_t skip = Tile::kGrouped ? place.group * call.groups.scale_stride * int64_t{sizeof(float)} : 0;
    block.ArriveExpecting(coded(stage), rows * (code_bytes + number_bytes));
    block.LoadBytes(codes(stage), weight.codes(place.column, k) + skip, rows * code_bytes, coded(stage));
    block.LoadBytes(numbers(stage), weight.numbers(place.column, k) + skip, rows * number_bytes, coded(stage));
  }

  // As WgmmaBlock::Load: weights are all that is read before the preceding kernel has ended.
  DUNLIN_DEVICE void Load() const {
    int32_t ahead = 0;
    if constexpr (Tile::kSwapped) {
      Base::ForStages(Tile::kStages, [&](const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) {
        LoadCodeRows(stage.index, place, k);
        ++ahead;
      });
      block.WaitForPreceding();
    }
    Base::ForStages(Base::kAllStages, [&](const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) {
      if (--ahead < 0) {
        block.Wait(Base::empty(stage.index), stage.parity ^ 1);
        LoadCodeRows(stage.index, place, k);
      }
      block.ArriveExpecting(Base::full(stage.index), Tile::kInBytes);
      block.LoadBox(Base::in(stage.index), call.in, Base::full(stage.index), k * kCodeTile, place.row);
    });
  }

  // --- Some warps expand. Each lane has the half of a row, so that loads of codes and stores of pieces have no bank
  // conflicts in 4 bits.
  template <int kBits>
  DUNLIN_DEVICE HalfCodes<kBits> LoadHalfRow(uint32_t from) const {
    HalfCodes<kBits> held;
    if constexpr (kBits == 6) {
      DUNLIN_UNROLL
      for (int i = 0; i < kBits; i += 2) {
        uint32_t words[2];
        block.LoadWords(words, from + 4 * i);
        held.words[i] = words[0];
        held.words[i + 1] = words[1];
      }
    } else {
      DUNLIN_UNROLL
      for (int i = 0; i < kBits; i += 4) {
        uint32_t words[4];
        block.LoadPiece(words, from + 4 * i);
        DUNLIN_UNROLL
        for (int j = 0; j < 4; ++j) held.words[i + j] = words[j];
      }
    }
    return held;
  }

  template <int kBits, bool kTable>
  DUNLIN_DEVICE void ExpandHalf(const CodedFormat& format, int stage, int row, int half) const {
    const auto held = LoadHalfRow<kBits>(codes(stage) + row * format.code_bytes() + half * (4 * kBits));
    const NumbersInBlock<Block> numbers_of{block, numbers(stage) + row * format.number_bytes};
    const int groups_shift = format.group == 16 ? 0 : 1;
    GroupNumbers group{};
    DUNLIN_UNROLL
    for (int piece = 0; piece < 4; ++piece) {  // of eight elements
      if (piece == 0 || (piece == 2 && format.group == 16)) {
        group = NumbersOf(format, numbers_of, (2 * half + piece / 2) >> groups_shift);
      }
      uint32_t elements[4];
      DUNLIN_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint32_t low = held.Get(8 * piece + 2 * i);
        const uint32_t high = held.Get(8 * piece + 2 * i + 1);
        if constexpr (kTable) {
          elements[i] = Bf16Pair(group.Value(format.Level(low)), group.Value(format.Level(high)));
        } else {
          elements[i] = Bf16Pair(ValueOfCode(group, low), ValueOfCode(group, high));
        }
      }
      const uint32_t at = row * kSwizzleRowBytes + half * (kSwizzleRowBytes / 2) + piece * kPieceBytes;
      block.StorePiece(expanded(stage) + Swizzled(at), elements);
    }
  }
  DUNLIN_DEVICE void ExpandRows(int stage, int group, int lane) const {
    // Those of rounded weights are compiled as constants.
    constexpr CodedFormat kInt4 = CodedFormatOf(WeightFormat::kInt4);
    constexpr CodedFormat kInt8 = CodedFormatOf(WeightFormat::kInt8);
    const CodedFormat& format = call.coded.format;
    const int row = 16 * group + lane / 2;
    const int half = lane % 2;
    if (format.scales == kInt4.scales) return ExpandHalf<kInt4.code_bits, false>(kInt4, stage, row, half);
    if (format.scales == kInt8.scales) return ExpandHalf<kInt8.code_bits, false>(kInt8, stage, row, half);
    if (format.has_levels()) return ExpandHalf<4, true>(format, stage, row, half);
    if (format.code_bits == 4) return ExpandHalf<4, false>(format, stage, row, half);
    if (format.code_bits == 6) return ExpandHalf<6, false>(format, stage, row, half);
    ExpandHalf<8, false>(format, stage, row, half);
  }

  // The slot's weights of kSlots stages before have been multiplied.
  DUNLIN_DEVICE void WaitForSlot(const WgmmaStage<Tile>& stage) const {
    const bool same_round = stage.index >= Tile::kSlots;
    const int before = stage.index - Tile::kSlots + (same_round ? 0 : Tile::kStages);
    block.Wait(Base::empty(before), same_round ? stage.parity : stage.parity ^ 1);
  }

  DUNLIN_DEVICE void Expand(int expander, int lane) const {
    int first = expander;  // the warp's first group of the stage
    Base::ForStages(Base::kAllStages, [&](const WgmmaStage<Tile>& stage, const WgmmaPlace&, int32_t) {
      for (int group = first; group < Tile::kGroups; group += Tile::kExpanders) {
        block.Wait(coded(stage.index), stage.parity);
        WaitForSlot(stage);
        ExpandRows(stage.index, group, lane);
        block.FenceAsync();
        block.SyncWarp();
        if (lane == 0) block.Arrive(Base::full(stage.index));
      }
      first -= Tile::kGroups % Tile::kExpanders;
      if (first < 0) first += Tile::kExpanders;
    });
  }

  // --- Warpgroups multiply. All of K of one tile; `stage` goes on over tiles.
  DUNLIN_DEVICE void MultiplyExpanded(int warpgroup, float (&sums)[Tile::kSums], WgmmaStage<Tile>* stage) const {
    int read = 0;  // the stage that the products in flight read
    for (int32_t k = 0; k < call.depth_tiles; ++k) {
      block.Wait(Base::full(stage->index), stage->parity);
      const uint64_t weights = WgmmaRows(expanded(stage->index));
      const uint64_t inputs = WgmmaRows(Base::in(stage->index) + warpgroup * 64 * kTileBytes);
      const uint64_t a = Tile::kSwapped ? weights : inputs;
      const uint64_t b = Tile::kSwapped ? inputs : weights;
      block.FenceProducts();
      DUNLIN_UNROLL
      for (int step = 0; step < Base::kSteps; ++step) {
        block.template Multiply<Bf16Format, Tile::kProductColumns>(sums, a + step * kDescriptorStep,
                                                                   b + step * kDescriptorStep, k > 0 || step > 0);
      }
      block.CommitProducts();
      if (k > 0) {
        block.template WaitForProducts<1>();
        Base::Release(read);
      }
      read = stage->index;
      stage->Next();
    }
    block.template WaitForProducts<0>();
    Base::Release(read);
  }

  DUNLIN_DEVICE void Compute(int warpgroup) const {
    if constexpr (Tile::kSwapped) block.WaitForPreceding();  // residuals
    WgmmaStage<Tile> stage;
    const int32_t count = Base::tiles();
    for (auto tile = static_cast<int32_t>(block.index()); tile < count; tile += static_cast<int32_t>(block.count())) {
      float sums[Tile::kSums];
      MultiplyExpanded(warpgroup, sums, &stage);
      Base::template StoreTile<false>(Base::PlaceOf(tile), warpgroup, sums);
    }
  }
};

template <typename Tile, typename Block>
DUNLIN_DEVICE void RunExpandedWgmma(const Block& block, const WgmmaCall& call) {
  const ExpandedWgmmaBlock<Tile, Block> gemm{{block, call, block.SharedBase()}};
  if constexpr (Tile::kSwapped) block.LaunchDependents();
  gemm.Start();
  constexpr int kMultiplying = 128 * Tile::kWarpgroups;
  const int warp = (block.thread() - kMultiplying) / kWarpLanes;
  if (block.thread() < kMultiplying) {
    gemm.Compute(block.thread() / 128);
  } else if (warp < Tile::kExpanders) {
    gemm.Expand(warp, block.thread() % kWarpLanes);
  } else if (block.thread() % kWarpLanes == 0) {
    gemm.Load();
  }
}

}  // namespace dunlin::kernels::cuda
