// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on integer codes, in all its tiles: whole launches on the host's machine against FP64, the same bits
// in any number of rows and order of events, and mistakes that must be found. coded_weight_test.cc has the formats.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/cuda/gemm/rounded_weight.h"
#include "tests/kernels/cuda/gemm/wgmma_product.h"

namespace dunlin::kernels::cuda {
namespace {

// The product of a rounded weight and random inputs, without residual.
struct CodedProduct {
  CodedProduct(WeightFormat format, int32_t num_rows, int64_t columns, int64_t depth)
      : rows(num_rows),
        weight(format, columns, depth),
        in(Precision::kBf16, num_rows, depth),
        bias(RandomValues(columns, 10)) {
    FillRandom(in, 13);
    activation = {.data = in.view().data, .precision = Precision::kBf16, .capacity_rows = num_rows};
    activation.columns = static_cast<int32_t>(depth);
  }
  int64_t columns() const { return weight.view.rows; }
  std::vector<float> Nothing() const { return std::vector<float>(static_cast<size_t>(rows * columns()), NAN); }
  TileCall Call(std::vector<float>* out, int64_t first, int32_t count, int32_t multiprocessors) const {
    const GemmParams params{&activation, &weight.packed, bias.data(), nullptr, out->data(), columns(), rows};
    TileCall call = TileCallOf(params, first, count, false, nullptr);
    call.multiprocessors = multiprocessors;
    return call;
  }
  std::vector<float> Run(CodedShape shape, int32_t multiprocessors, uint64_t seed) const {
    std::vector<float> out = Nothing();
    EXPECT_EQ(RunCodedShape(shape, Call(&out, 0, rows, multiprocessors), {.seed = seed}), "");
    return out;
  }

  int32_t rows;
  RoundedWeight weight;
  HostMatrix in;
  std::vector<float> bias;
  Activation activation;
};

std::vector<CodedShape> AllShapes() {
  std::vector<CodedShape> shapes(kCodedShapes);
  for (int32_t i = 0; i < kCodedShapes; ++i) shapes[static_cast<size_t>(i)] = static_cast<CodedShape>(i);
  return shapes;
}
constexpr CodedShape kExpandedShapes[] = {CodedShape::k8x16, CodedShape::k16x16, CodedShape::k64x64,
                                          CodedShape::k128x128};

TEST(CodedShapes, MatchFp64) {
  const CodedProduct product(WeightFormat::kInt4, 70, 150, 330);
  const std::vector<float> out = product.Run(CodedShape::k128x128, 1, 1);
  for (int64_t m = 0; m < 70; ++m) {
    for (int64_t n = 0; n < 150; ++n) {
      double sum = product.bias[static_cast<size_t>(n)];
      double magnitude = std::fabs(sum);
      for (int64_t k = 0; k < 330; ++k) {
        const double term = double{product.weight.values.At(n, k)} * product.in.At(m, k);
        sum += term;
        magnitude += std::fabs(term);
      }
      ASSERT_NEAR(out[static_cast<size_t>(m * 150 + n)], sum, 340 * 0x1p-23 * magnitude) << m << ", " << n;
    }
  }
  for (const CodedShape shape : AllShapes()) EXPECT_EQ(product.Run(shape, 2, 3), out) << static_cast<int>(shape);
}

// As the launcher chooses, on a device of few and of many multiprocessors.
TEST(CodedShapes, ARowHasTheSameBitsInAnyNumberOfRows) {
  const CodedProduct product(WeightFormat::kInt8, 140, 80, 200);
  const std::vector<float> all = product.Run(CodedShape::kWide64x64, 132, 7);
  for (const int32_t multiprocessors : {1, 132}) {
    for (const int32_t count : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 140}) {
      std::vector<float> out = product.Nothing();
      const int32_t first = (140 - count) / 2;
      const TileCall call = product.Call(&out, first, count, multiprocessors);
      ASSERT_EQ(RunCodedShape(CodedShapeOf(call), call, {.seed = 3}), "") << count;
      for (int64_t i = 0; i < 140 * 80; ++i) {
        const float value = out[static_cast<size_t>(i)];
        const bool written = i >= first * 80 && i < (first + count) * 80;
        ASSERT_TRUE(written ? value == all[static_cast<size_t>(i)] : std::isnan(value)) << count << " at " << i;
      }
    }
  }
}

// Few blocks take many tiles in turn: stages, slots and the turns of the warps that expand go on from tile to tile.
TEST(CodedShapes, PersistentBlocksAndOrdersOfEventsChangeNoBit) {
  const CodedProduct product(WeightFormat::kInt4, 20, 300, 1100);
  const std::vector<float> expected = product.Run(CodedShape::kWide32x64, 132, 1);
  for (const CodedShape shape : kExpandedShapes) {
    for (uint64_t seed = 10; seed < 12; ++seed) {
      EXPECT_EQ(product.Run(shape, 1, seed), expected) << static_cast<int>(shape) << " seed " << seed;
    }
  }
}

// Of an input in its row, of a group's scale in its output: what a tile of 16 outputs multiplies besides is in no sum.
TEST(CodedShapes, ANanStaysInItsRowAndOutput) {
  for (const CodedShape shape : kExpandedShapes) {
    CodedProduct product(WeightFormat::kInt4, 7, 66, 900);
    const std::vector<float> clean = product.Run(shape, 1, 1);
    product.in.view().row(3)[1] = 0x7F;
    product.in.view().row(3)[0] = 0xFF;
    reinterpret_cast<uint16_t*>(product.weight.view.numbers(40, 2))[0] = 0x7FFF;
    const std::vector<float> out = product.Run(shape, 1, 1);
    for (size_t i = 0; i < out.size(); ++i) {
      if (i / 66 == 3 || i % 66 == 40) {
        ASSERT_TRUE(std::isnan(out[i])) << i;
      } else {
        ASSERT_EQ(out[i], clean[i]) << i;
      }
    }
  }
}

TEST(CodedShapes, OnlyWeightsAreReadBeforeThePrecedingKernelEnds) {
  for (const CodedShape shape : {CodedShape::kWide8x64, CodedShape::k8x16, CodedShape::k16x16, CodedShape::k64x64}) {
    const CodedProduct product(WeightFormat::kInt4, 5, 130, 2000);
    ExpectOnlyWeightsBeforeTheWait(product.in.view(), product.Nothing(),
                                   [&](std::vector<float>* out, const MachineOptions& options) {
                                     return RunCodedShape(shape, product.Call(out, 0, 5, 1), options);
                                   });
  }
}

// From some call on, each mistake that the machine can make ends in a fault or in other values.
TEST(CodedShapes, MistakesAreFound) {
  const CodedProduct product(WeightFormat::kInt4, 5, 130, 2000);
  for (const CodedShape shape : {CodedShape::kWide8x64, CodedShape::k8x16, CodedShape::k64x64, CodedShape::k128x128}) {
    const bool expands = shape >= CodedShape::k8x16;
    const std::vector<float> clean = product.Run(shape, 1, 1);
    for (const Mistake mistake :
         {Mistake::kSkippedArrival, Mistake::kFewerBytes, Mistake::kMoreBytes, Mistake::kWrongParity,
          Mistake::kSkippedWait, Mistake::kSkippedAsyncFence, Mistake::kSkippedBarrierFence,
          Mistake::kSkippedProductFence, Mistake::kSkippedProductWait, Mistake::kLateProductWait}) {
      if (mistake == Mistake::kSkippedAsyncFence && !expands) continue;
      for (const int at : {0, 20}) {
        const bool once = mistake == Mistake::kSkippedBarrierFence;
        std::vector<float> out = product.Nothing();
        const std::string fault =
            RunCodedShape(shape, product.Call(&out, 0, 5, 1), {.mistake = mistake, .mistake_at = once ? 0 : at});
        EXPECT_TRUE(!fault.empty() || out != clean)
            << static_cast<int>(shape) << ": " << static_cast<int>(mistake) << " at " << at;
      }
    }
  }
}

TEST(CodedShapes, FollowTheRowsAndTheTilesOfTheDevice) {
  const auto shape_of = [](int32_t rows, int64_t columns, int32_t tile_shape = 0) {
    TileCall call{};
    call.num_rows = rows;
    call.columns = columns;
    call.multiprocessors = 132;
    call.tile_shape = tile_shape;
    return CodedShapeOf(call);
  };
  EXPECT_EQ(shape_of(1, 28672), CodedShape::kWide8x64);
  EXPECT_EQ(shape_of(8, 64 * 131 + 1), CodedShape::kWide8x64);
  EXPECT_EQ(shape_of(8, 64 * 131), CodedShape::k8x16);
  EXPECT_EQ(shape_of(9, 28672), CodedShape::kWide16x64);
  EXPECT_EQ(shape_of(16, 4096), CodedShape::k16x16);
  EXPECT_EQ(shape_of(32, 28672), CodedShape::kWide32x64);
  EXPECT_EQ(shape_of(64, 28672), CodedShape::kWide64x64);
  EXPECT_EQ(shape_of(17, 4096), CodedShape::k64x64);
  EXPECT_EQ(shape_of(64, 4096), CodedShape::k64x64);
  EXPECT_EQ(shape_of(65, 28672), CodedShape::k128x128);
  EXPECT_EQ(shape_of(256, 4096), CodedShape::k64x64) << "64 tiles of 128 x 128";
  EXPECT_EQ(shape_of(512, 4096), CodedShape::k128x128);
  for (int32_t shape = 1; shape <= kCodedShapes; ++shape) {
    EXPECT_EQ(shape_of(1, 64, shape), static_cast<CodedShape>(shape - 1));
  }
}

// Lanes of half rows in 4 bits: eight at a time read and write 16 bytes each.
TEST(CodedShapes, ExpandWithoutBankConflicts) {
  for (int first = 0; first < 32; first += 8) {
    std::vector<int> read(8);
    std::vector<int> written(8);
    for (int lane = first; lane < first + 8; ++lane) {
      ++read[static_cast<size_t>((lane / 2 * 32 + lane % 2 * 16) / 16 % 8)];
      ++written[static_cast<size_t>(
          Swizzled(static_cast<uint32_t>(lane / 2) * kSwizzleRowBytes + static_cast<uint32_t>(lane % 2) * 64) / 16 %
          8)];
    }
    EXPECT_EQ(read, std::vector<int>(8, 1));
    EXPECT_EQ(written, std::vector<int>(8, 1));
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
