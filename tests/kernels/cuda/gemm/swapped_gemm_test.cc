// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM with weights on the M side, for few rows: whole launches on the host's machine against FP64, and bit
// for bit against the tiles for prompts, whatever the number of rows and the order of events.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/cuda/gemm/wgmma_product.h"

namespace dunlin::kernels::cuda {
namespace {

struct SwappedShape {
  int32_t rows;
  int64_t columns;
  int64_t depth;
  int64_t stride;
};
// Tails of rows, outputs and depth, tiles of 64 and of 16 outputs that are not whole, more K than there are stages of,
// and more rows than a tile has.
constexpr SwappedShape kSwappedShapes[] = {{1, 1, 1, 1},     {3, 130, 64, 132},   {8, 64, 1700, 64},  {17, 65, 600, 65},
                                           {33, 77, 72, 78}, {64, 128, 130, 128}, {70, 144, 200, 146}};

template <typename Format>
void CheckSwappedShapes(Precision precision, int32_t scale_block = 0) {
  for (const SwappedShape& shape : kSwappedShapes) {
    SCOPED_TRACE(std::string(Name(precision)) + " " + std::to_string(shape.rows) + " x " +
                 std::to_string(shape.columns) + " x " + std::to_string(shape.depth));
    const GemmProduct product(precision, shape.rows, shape.columns, shape.depth, shape.stride, scale_block);
    const std::vector<float> prompt = product.Run<Wgmma64x128<Format>>(0, shape.rows, 132, 1);
    ASSERT_NO_FATAL_FAILURE(ExpectMatchesFp64(product, prompt));
    EXPECT_EQ(product.Run<Swapped64x64<Format>>(0, shape.rows, 132, 2), prompt);
    EXPECT_EQ(product.Run<Swapped32x64<Format>>(0, shape.rows, 1, 3), prompt);
    EXPECT_EQ(product.Run<Swapped16x64<Format>>(0, shape.rows, 132, 4), prompt);
    EXPECT_EQ(product.Run<Swapped8x64<Format>>(0, shape.rows, 1, 5), prompt);
    EXPECT_EQ(product.Run<Swapped16x16<Format>>(0, shape.rows, 132, 6), prompt);
    EXPECT_EQ(product.Run<Swapped8x16<Format>>(0, shape.rows, 2, 7), prompt);
  }
}

TEST(SwappedGemm, EveryTileHasTheBitsOfPromptsBf16) {
  CheckSwappedShapes<Bf16Format>(Precision::kBf16);
}
TEST(SwappedGemm, EveryTileHasTheBitsOfPromptsFp16) {
  CheckSwappedShapes<Fp16Format>(Precision::kFp16);
}
// Scales of rows and outputs; sums promoted each 128 of K.
TEST(SwappedGemm, EveryTileHasTheBitsOfPromptsFp8) {
  CheckSwappedShapes<E4M3Format>(Precision::kFp8);
}
// Scales of each 128 of K, whose stages have them beside the codes.
TEST(SwappedGemm, EveryTileHasTheBitsOfPromptsFp8Blocks) {
  CheckSwappedShapes<E4M3Blocks>(Precision::kFp8, kScaleBlock);
}

// As the launcher chooses: rows [first, first + count) of the same product, alone.
template <typename Format>
void CheckNumbersOfRows(Precision precision, int32_t scale_block) {
  const GemmProduct product(precision, 96, 80, 136, 81, scale_block);
  const std::vector<float> all = product.Run<Wgmma128x128<Format>>(0, 96, 132, 7);
  for (int32_t count = 1; count <= 65; ++count) {
    const int32_t first = 96 - count - count % 3;
    std::vector<float> out = product.before;
    const TileCall call = product.Call(out.data(), first, count, 132);
    const std::string fault = WithWgmmaTile<Format>(
        WgmmaTileShapeOf(call), [&](auto tile) { return RunWgmma<decltype(tile)>(call, {.seed = 3}); });
    ASSERT_EQ(fault, "") << count;
    std::vector<float> expected = product.before;
    const auto begin = static_cast<ptrdiff_t>(first * product.stride);
    const auto end = begin + static_cast<ptrdiff_t>(count * product.stride);
    std::copy(all.begin() + begin, all.begin() + end, expected.begin() + begin);
    ASSERT_EQ(out, expected) << count;
  }
}
TEST(SwappedGemm, ARowHasTheSameBitsInAnyNumberOfRows) {
  CheckNumbersOfRows<Bf16Format>(Precision::kBf16, 0);
  CheckNumbersOfRows<E4M3Blocks>(Precision::kFp8, kScaleBlock);
}

// Few blocks take many tiles in turn: the ring of stages goes on from tile to tile. No order of events changes a bit.
TEST(SwappedGemm, PersistentBlocksAndOrdersOfEventsChangeNoBit) {
  const GemmProduct product(Precision::kFp8, 6, 420, 1000, 420);
  const std::vector<float> all = product.Run<Swapped8x64<E4M3Format>>(0, 6, 132, 1);
  ASSERT_NO_FATAL_FAILURE(ExpectMatchesFp64(product, all));
  for (uint64_t seed = 10; seed < 13; ++seed) {
    EXPECT_EQ(product.Run<Swapped8x64<E4M3Format>>(0, 6, 1, seed), all) << seed;
    EXPECT_EQ(product.Run<Swapped8x16<E4M3Format>>(0, 6, 1, seed), all) << seed;
  }
}

template <typename Tile>
void CheckSwappedActivation(Precision precision) {
  const GemmProduct product(precision, 19, 144, 100, 144);
  const auto next_of = [&](auto tile) {
    auto next = std::make_unique<HostMatrix>(precision, 19, 144);
    Activation activation{.data = next->view().data, .precision = precision, .capacity_rows = 19};
    activation.columns = 144;
    GemmParams params{&product.activation, &product.packed, product.bias.data(), nullptr, nullptr, 0, 19};
    params.next = &activation;
    TileCall call = TileCallOf(params, 3, 10, false, nullptr);
    call.multiprocessors = 132;
    EXPECT_EQ(RunWgmma<decltype(tile)>(call), "");
    return next;
  };
  const auto next = next_of(Tile());
  const auto prompt = next_of(Wgmma64x128<typename Tile::Format>());
  for (int64_t m = 0; m < 19; ++m) {
    for (int64_t n = 0; n < 144; ++n) {
      if (m < 3 || m >= 13) {
        ASSERT_TRUE(std::isnan(next->At(m, n))) << m << ", " << n;
      } else {
        ASSERT_EQ(next->At(m, n), prompt->At(m, n)) << m << ", " << n;
      }
    }
  }
}

TEST(SwappedGemm, AFusedActivationHasTheBitsOfPrompts) {
  CheckSwappedActivation<Swapped16x64<Bf16Format>>(Precision::kBf16);
  CheckSwappedActivation<Swapped16x16<Fp16Format>>(Precision::kFp16);
}

// Of an input in its row, of a weight in its output: what follows a tile of 16 outputs in shared memory is in no sum.
TEST(SwappedGemm, ANanStaysInItsRowAndOutput) {
  const GemmProduct product(Precision::kBf16, 7, 66, 1700, 66);
  const std::vector<float> clean = product.Run<Swapped8x16<Bf16Format>>(0, 7, 132, 1);
  for (unsigned char* element : {product.in.view().row(3), product.weight.view().row(40)}) {
    element[1] = 0x7F;
    element[0] = 0xFF;
  }
  const std::vector<float> out = product.Run<Swapped8x16<Bf16Format>>(0, 7, 1, 1);
  for (size_t i = 0; i < out.size(); ++i) {
    if (i / 66 == 3 || i % 66 == 40) {
      ASSERT_TRUE(std::isnan(out[i])) << i;
    } else {
      ASSERT_EQ(out[i], clean[i]) << i;
    }
  }
}

template <typename Tile>
void CheckOverlap(Precision precision, int32_t scale_block = 0) {
  const GemmProduct product(precision, 5, 300, 1000, 300, scale_block);
  ExpectOnlyWeightsBeforeTheWait(product.in.view(), product.before,
                                 [&](std::vector<float>* out, const MachineOptions& options) {
                                   return RunWgmma<Tile>(product.Call(out->data(), 0, 5, 1), options);
                                 });
}
TEST(SwappedGemm, OnlyWeightsAreReadBeforeThePrecedingKernelEnds) {
  CheckOverlap<Swapped8x64<Bf16Format>>(Precision::kBf16);
  CheckOverlap<Swapped8x16<Fp16Format>>(Precision::kFp16);
  CheckOverlap<Swapped16x64<E4M3Format>>(Precision::kFp8);
  CheckOverlap<Swapped8x64<E4M3Blocks>>(Precision::kFp8, kScaleBlock);
}

// From some call on, each mistake that the machine can make ends in a fault or in other values.
template <typename Tile>
void CheckMistakesAreFound(Precision precision, int32_t scale_block = 0) {
  const GemmProduct product(precision, 5, 130, 4000, 132, scale_block);
  const std::vector<float> clean = product.Run<Tile>(0, 5, 1, 1);
  for (const Mistake mistake :
       {Mistake::kSkippedArrival, Mistake::kFewerBytes, Mistake::kMoreBytes, Mistake::kWrongParity,
        Mistake::kSkippedWait, Mistake::kSkippedBarrierFence, Mistake::kSkippedProductFence,
        Mistake::kSkippedProductWait, Mistake::kLateProductWait}) {
    for (const int at : {0, 40}) {
      const bool once = mistake == Mistake::kSkippedBarrierFence;
      std::vector<float> out = product.before;
      const std::string fault =
          RunWgmma<Tile>(product.Call(out.data(), 0, 5, 1), {.mistake = mistake, .mistake_at = once ? 0 : at});
      EXPECT_TRUE(!fault.empty() || out != clean) << static_cast<int>(mistake) << " at " << at;
    }
  }
}
TEST(SwappedGemm, MistakesAreFound) {
  CheckMistakesAreFound<Swapped8x64<Bf16Format>>(Precision::kBf16);
  CheckMistakesAreFound<Swapped8x16<E4M3Format>>(Precision::kFp8);
  CheckMistakesAreFound<Swapped8x64<E4M3Blocks>>(Precision::kFp8, kScaleBlock);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
