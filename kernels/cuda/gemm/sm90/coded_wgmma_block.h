// SPDX-License-Identifier: Apache-2.0
// A block of the wgmma GEMM on weights of integer codes, for rows that decode: codes and the numbers of their groups
// come by bulk copies, each thread expands those of its elements of A to BF16 in registers, half a tile of K while the
// other half's products run. Sums have the bits that the expanded weight would give the wgmma GEMM.
#pragma once

#include "kernels/cuda/gemm/coded_weight.h"
#include "kernels/cuda/gemm/sm90/wgmma_block.h"

namespace dunlin::kernels::cuda {

// NumbersInMemory, in shared memory.
template <typename Block>
struct NumbersInBlock {
  const Block& block;
  uint32_t address;
  DUNLIN_DEVICE float Half(int i) const { return FromFp16(Word(i)); }
  DUNLIN_DEVICE uint16_t Word(int i) const { return block.LoadHalf(address + 2 * i); }
  DUNLIN_DEVICE int8_t Integer(int i) const { return static_cast<int8_t>(block.LoadByte(address + i)); }
  DUNLIN_DEVICE float Float(int i) const { return block.LoadFloat(address + 4 * i); }
};

DUNLIN_HD inline uint32_t Bf16Pair(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return PackPair<Bf16Format>(low, high);
#endif
}

// GroupNumbers::Value without a conversion: 2^23 + code has the code's bits, and both sums are exact.
DUNLIN_HD inline float ValueOfCode(const GroupNumbers& group, uint32_t code) {
  return fmaf(group.scale, BitsToFloat(0x4B000000U | code) + (group.shift - 0x1p23F), -group.minimum);
}

template <typename Tile, typename Block>
struct CodedWgmmaBlock : WgmmaBlock<Tile, Block> {
  using Base = WgmmaBlock<Tile, Block>;
  using Base::block;
  using Base::call;

  DUNLIN_DEVICE uint32_t codes(int stage) const { return Base::weight(stage); }
  DUNLIN_DEVICE uint32_t numbers(int stage) const { return codes(stage) + Tile::kCodeBytes; }

  // Rows of codes are padded to 16; those past them are not loaded, and nothing of theirs is stored.
  DUNLIN_DEVICE void LoadCodeRows(const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) const {
    const CodedView& weight = call.coded;
    const auto code_bytes = static_cast<uint32_t>(weight.format.code_bytes());
    const auto number_bytes = static_cast<uint32_t>(weight.format.number_bytes);
    const int64_t left = PaddedRows(weight.rows) - place.column;
    const auto rows = static_cast<uint32_t>(left < Tile::kColumns ? left : Tile::kColumns);
    const uint32_t full = Base::full(stage.index);
    block.ArriveExpecting(full, Tile::kInBytes + rows * (code_bytes + number_bytes));
    block.LoadBytes(codes(stage.index), weight.codes(place.column, k), rows * code_bytes, full);
    block.LoadBytes(numbers(stage.index), weight.numbers(place.column, k), rows * number_bytes, full);
  }

  // One thread. As WgmmaBlock::Load.
  DUNLIN_DEVICE void Load() const {
    int32_t ahead = 0;
    Base::ForStages(Tile::kStages, [&](const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) {
      LoadCodeRows(stage, place, k);
      ++ahead;
    });
    block.WaitForPreceding();
    Base::ForStages(Base::kAllStages, [&](const WgmmaStage<Tile>& stage, const WgmmaPlace& place, int32_t k) {
      if (--ahead < 0) {
        block.Wait(Base::empty(stage.index), stage.parity ^ 1);
        LoadCodeRows(stage, place, k);
      }
      block.LoadBox(Base::in(stage.index), call.in, Base::full(stage.index), k * kCodeTile, place.row);
    });
  }

  // The codes of elements 16 step + 8 part + 2 (thread % 4) and the next one of half a row, part 0 and 1.
  template <int kBits>
  DUNLIN_DEVICE void LoadCodes(uint32_t half_row, int step, uint32_t (&low)[2], uint32_t (&high)[2]) const {
    const int quad = block.thread() % 4;
    uint32_t words[2];
    uint32_t top = 0;  // of 6 bits
    if constexpr (kBits == 8) {
      words[0] = block.LoadWord(half_row + 16 * step + quad / 2 * 4);
      words[1] = block.LoadWord(half_row + 16 * step + quad / 2 * 4 + 8);
    } else {
      block.LoadWords(words, half_row + 8 * step);
    }
    if constexpr (kBits == 6) top = block.LoadWord(half_row + 16 + 4 * step) >> (4 * quad);
    DUNLIN_UNROLL
    for (int part = 0; part < 2; ++part) {
      if constexpr (kBits == 8) {
        const uint32_t pair = words[part] >> (quad % 2 * 16);
        low[part] = pair & 0xFFU;
        high[part] = pair >> 8 & 0xFFU;
        continue;
      }
      const uint32_t pair = words[part] >> (8 * quad);
      low[part] = pair & 0xFU;
      high[part] = pair >> 4 & 0xFU;
      if constexpr (kBits == 6) {
        low[part] |= (top >> (16 * part) & 0x3U) << 4;
        high[part] |= (top >> (16 * part + 2) & 0x3U) << 4;
      }
    }
  }

  // A's registers of the two steps of 16 of K in half a tile.
  template <int kBits, bool kTable>
  DUNLIN_DEVICE void Expand(const CodedFormat& format, int stage, int half, uint32_t (&a)[2][4]) const {
    const int groups_shift = format.group == 16 ? 0 : 1;
    DUNLIN_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int row = WgmmaSlot::Row(block.thread() % 128, 2 * r);
      const uint32_t half_row = codes(stage) + row * format.code_bytes() + half * (4 * kBits);
      const NumbersInBlock<Block> held{block, numbers(stage) + row * format.number_bytes};
      GroupNumbers group{};
      DUNLIN_UNROLL
      for (int step = 0; step < 2; ++step) {
        if (step == 0 || format.group == 16) group = NumbersOf(format, held, (2 * half + step) >> groups_shift);
        uint32_t low[2];
        uint32_t high[2];
        LoadCodes<kBits>(half_row, step, low, high);
        DUNLIN_UNROLL
        for (int part = 0; part < 2; ++part) {
          if constexpr (kTable) {
            a[step][r + 2 * part] =
                Bf16Pair(group.Value(format.Level(low[part])), group.Value(format.Level(high[part])));
          } else {
            a[step][r + 2 * part] = Bf16Pair(ValueOfCode(group, low[part]), ValueOfCode(group, high[part]));
          }
        }
      }
    }
  }
  DUNLIN_DEVICE void ExpandHalf(int stage, int half, uint32_t (&a)[2][4]) const {
    // Those of rounded weights are compiled as constants.
    constexpr CodedFormat kInt4 = CodedFormatOf(WeightFormat::kInt4);
    constexpr CodedFormat kInt8 = CodedFormatOf(WeightFormat::kInt8);
    const CodedFormat& format = call.coded.format;
    if (format.scales == kInt4.scales) return Expand<kInt4.code_bits, false>(kInt4, stage, half, a);
    if (format.scales == kInt8.scales) return Expand<kInt8.code_bits, false>(kInt8, stage, half, a);
    if (format.has_levels()) return Expand<4, true>(format, stage, half, a);
    if (format.code_bits == 4) return Expand<4, false>(format, stage, half, a);
    if (format.code_bits == 6) return Expand<6, false>(format, stage, half, a);
    Expand<8, false>(format, stage, half, a);
  }

  // All of K of one tile; `stage` goes on over tiles.
  DUNLIN_DEVICE void MultiplyCodes(float (&sums)[Tile::kSums], WgmmaStage<Tile>* stage) const {
    uint32_t a[2][2][4];  // of both halves of a tile of K
    int read = 0;         // the stage before
    for (int32_t k = 0; k < call.depth_tiles; ++k) {
      block.Wait(Base::full(stage->index), stage->parity);
      const uint64_t b = WgmmaRows(Base::in(stage->index));
      DUNLIN_UNROLL
      for (int half = 0; half < 2; ++half) {
        block.template WaitForProducts<1>();  // those that read a[half] are done
        if (half == 1 && k > 0) Base::Release(read);
        ExpandHalf(stage->index, half, a[half]);
        block.FenceProducts();
        DUNLIN_UNROLL
        for (int step = 0; step < 2; ++step) {
          block.template Multiply<Bf16Format, Tile::kRows>(sums, a[half][step], b + (2 * half + step) * kDescriptorStep,
                                                           k > 0 || half > 0 || step > 0);
        }
        block.CommitProducts();
      }
      read = stage->index;
      stage->Next();
    }
    block.template WaitForProducts<0>();
    Base::Release(read);
  }

  DUNLIN_DEVICE void Compute() const {
    block.WaitForPreceding();  // residuals
    WgmmaStage<Tile> stage;
    const int32_t count = Base::tiles();
    for (auto tile = static_cast<int32_t>(block.index()); tile < count; tile += static_cast<int32_t>(block.count())) {
      float sums[Tile::kSums];
      MultiplyCodes(sums, &stage);
      Base::template StoreTile<false>(Base::PlaceOf(tile), 0, sums);
    }
  }
};

template <typename Tile, typename Block>
DUNLIN_DEVICE void RunCodedWgmma(const Block& block, const WgmmaCall& call) {
  const CodedWgmmaBlock<Tile, Block> gemm{{block, call, block.SharedBase()}};
  gemm.Start();
  block.LaunchDependents();
  if (block.thread() < 128) {
    gemm.Compute();
  } else if (block.thread() == 128) {
    gemm.Load();
  }
}

}  // namespace dunlin::kernels::cuda
