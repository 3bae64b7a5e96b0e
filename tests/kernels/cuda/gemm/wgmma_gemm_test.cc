// SPDX-License-Identifier: Apache-2.0
// Whole launches of the wgmma GEMM on the host's machine: against FP64, with the same bits from every tile shape,
// number of rows and blocks, and order of events; and that mistakes in its barriers and fences are found.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/cuda/gemm/check_problem.h"
#include "kernels/cuda/gemm/kernel.h"
#include "tests/kernels/cuda/gemm/wgmma_product.h"

namespace dunlin::kernels::cuda {
namespace {

struct ProductShape {
  int32_t rows;
  int64_t columns;
  int64_t depth;
  int64_t stride;
};
// Tails of rows, columns and depth, strides with and without pairs, fewer and more stages of K than there are.
constexpr ProductShape kProductShapes[] = {{1, 1, 1, 1},      {5, 130, 64, 132},   {64, 128, 130, 128},
                                           {70, 65, 600, 65}, {130, 257, 72, 257}, {129, 300, 320, 300}};

template <typename Format>
void CheckProductShapes(Precision precision, int32_t scale_block = 0) {
  for (const ProductShape& shape : kProductShapes) {
    SCOPED_TRACE(std::string(Name(precision)) + " " + std::to_string(shape.rows) + " x " +
                 std::to_string(shape.columns) + " x " + std::to_string(shape.depth));
    const GemmProduct product(precision, shape.rows, shape.columns, shape.depth, shape.stride, scale_block);
    const std::vector<float> out = product.Run<Wgmma64x128<Format>>(0, shape.rows, 132, 1);
    ASSERT_NO_FATAL_FAILURE(ExpectMatchesFp64(product, out));
    EXPECT_EQ(product.Run<Wgmma128x128<Format>>(0, shape.rows, 2, 2), out);
    EXPECT_EQ(product.Run<Wgmma128x256<Format>>(0, shape.rows, 1, 3), out);
  }
}

TEST(WgmmaGemm, EveryTileShapeMatchesFp64WithTheSameBitsBf16) {
  CheckProductShapes<Bf16Format>(Precision::kBf16);
}
TEST(WgmmaGemm, EveryTileShapeMatchesFp64WithTheSameBitsFp16) {
  CheckProductShapes<Fp16Format>(Precision::kFp16);
}

// Scales of rows and outputs; sums promoted each 128 of K.
TEST(WgmmaGemm, EveryTileShapeMatchesFp64WithTheSameBitsFp8) {
  CheckProductShapes<E4M3Format>(Precision::kFp8);
}
// Scales of each 128 of K.
TEST(WgmmaGemm, EveryTileShapeMatchesFp64WithTheSameBitsFp8Blocks) {
  CheckProductShapes<E4M3Blocks>(Precision::kFp8, kScaleBlock);
}

TEST(WgmmaGemm, ARowHasTheSameBitsInAnyCall) {
  const GemmProduct product(Precision::kBf16, 140, 136, 200, 136);
  const std::vector<float> all = product.Run<Wgmma128x128<Bf16Format>>(0, 140, 132, 7);
  for (const auto& [first, count] : {std::pair{0, 1}, {3, 1}, {139, 1}, {7, 64}, {11, 65}, {2, 130}}) {
    std::vector<float> expected = product.before;
    const auto begin = static_cast<ptrdiff_t>(first * product.stride);
    const auto end = begin + static_cast<ptrdiff_t>(count * product.stride);
    std::copy(all.begin() + begin, all.begin() + end, expected.begin() + begin);
    EXPECT_EQ(product.Run<Wgmma64x128<Bf16Format>>(first, count, 132, 8), expected) << first << " " << count;
  }
}

// Few blocks take many tiles in turn: the ring of stages goes on from tile to tile. No order of events changes a bit.
TEST(WgmmaGemm, PersistentBlocksAndOrdersOfEventsChangeNoBit) {
  const GemmProduct product(Precision::kFp16, 200, 520, 192, 520);
  const std::vector<float> all = product.Run<Wgmma64x128<Fp16Format>>(0, 200, 132, 1);
  ASSERT_NO_FATAL_FAILURE(ExpectMatchesFp64(product, all));
  for (uint64_t seed = 10; seed < 13; ++seed) {
    EXPECT_EQ(product.Run<Wgmma64x128<Fp16Format>>(0, 200, 3, seed), all) << seed;
    EXPECT_EQ(product.Run<Wgmma128x128<Fp16Format>>(0, 200, 1, seed), all) << seed;
  }
}

TEST(WgmmaGemm, AFusedActivationWritesTheNextInput) {
  const GemmProduct product(Precision::kBf16, 19, 144, 100, 144);
  const HostMatrix next(Precision::kBf16, 19, 144);
  Activation activation{.data = next.view().data, .precision = Precision::kBf16, .capacity_rows = 19};
  activation.columns = 144;
  GemmParams params{&product.activation, &product.packed, product.bias.data(), nullptr, nullptr, 0, 19};
  params.next = &activation;
  TileCall call = TileCallOf(params, 3, 10, false, nullptr);
  call.multiprocessors = 132;
  ASSERT_EQ(RunWgmma<Wgmma64x128<Bf16Format>>(call), "");
  for (int64_t m = 0; m < 19; ++m) {
    for (int64_t n = 0; n < 144; ++n) {
      if (m < 3 || m >= 13) {
        ASSERT_TRUE(std::isnan(next.At(m, n))) << m << ", " << n;
        continue;
      }
      double magnitude = 0;
      const double sum = Fp64SumOf(product, m, n, &magnitude);
      // Hendrycks & Gimpel 2016: the tanh approximation.
      const double expected =
          0.5 * sum * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (sum + 0.044715 * sum * sum * sum)));
      ASSERT_NEAR(next.At(m, n), expected, 0x1.02p-8 * std::fabs(expected) + 0x1p-15 * magnitude) << m << ", " << n;
    }
  }
}

TEST(WgmmaGemm, ANanStaysInItsRow) {
  const GemmProduct product(Precision::kBf16, 70, 66, 130, 66);
  const std::vector<float> clean = product.Run<Wgmma128x128<Bf16Format>>(0, 70, 132, 1);
  product.in.view().row(3)[1] = 0x7F;
  product.in.view().row(3)[0] = 0xFF;
  const std::vector<float> out = product.Run<Wgmma128x128<Bf16Format>>(0, 70, 132, 1);
  for (size_t i = 0; i < out.size(); ++i) {
    if (i / 66 == 3) {
      ASSERT_TRUE(std::isnan(out[i]));
    } else {
      ASSERT_EQ(out[i], clean[i]);
    }
  }
}

// From some call on, each mistake that the machine can make ends in a fault or in other values.
TEST(WgmmaGemm, MistakesAreFound) {
  using Tile = Wgmma128x128<Bf16Format>;
  const GemmProduct product(Precision::kBf16, 130, 130, 1000, 132);
  const std::vector<float> clean = product.Run<Tile>(0, 130, 1, 1);
  for (const Mistake mistake :
       {Mistake::kSkippedArrival, Mistake::kFewerBytes, Mistake::kMoreBytes, Mistake::kWrongParity,
        Mistake::kSkippedWait, Mistake::kSkippedBarrierFence, Mistake::kSkippedProductFence,
        Mistake::kSkippedProductWait, Mistake::kLateProductWait, Mistake::kSkippedRegisterRelease}) {
    for (const int at : {0, 40}) {
      const bool once = mistake == Mistake::kSkippedBarrierFence;
      std::vector<float> out = product.before;
      const std::string fault =
          RunWgmma<Tile>(product.Call(out.data(), 0, 130, 1), {.mistake = mistake, .mistake_at = once ? 0 : at});
      EXPECT_TRUE(!fault.empty() || out != clean) << static_cast<int>(mistake) << " at " << at;
    }
  }
}

// What tuning takes for worth a try.
TEST(GemmKernelTable, RowsOfShapesAreThoseOfTheirTiles) {
  for (const GemmKernel& kernel : GemmKernels()) {
    const std::span<const int32_t> rows = ShapeRowsOf(kernel);
    ASSERT_EQ(static_cast<int32_t>(rows.size()), kernel.checked_shapes) << kernel.name;
    const bool coded = std::string_view(kernel.name) == "wgmma codes";
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto rows_of = [](auto tile) { return int32_t{decltype(tile)::kRows}; };
      const auto expanded = static_cast<CodedShape>(i);
      const int32_t expected = !coded ? WithWgmmaTile<Bf16Format>(static_cast<WgmmaTileShape>(i), rows_of)
                               : expanded < CodedShape::k8x16 ? WithCodedTile(kCodedTileRows[i], rows_of)
                                                              : WithExpandedTile(expanded, rows_of);
      EXPECT_EQ(rows[i], expected) << kernel.name << " shape " << i + 1;
    }
  }
}

// What the device checks when it is opened, with the kernel that every device has as the other one.
TEST(GemmCheck, AgreesWithTheOtherKernelAndFindsAWrongElement) {
  for (const GemmKernel& kernel : GemmKernels()) {
    if (kernel.checked_shapes == 0) continue;
    SCOPED_TRACE(kernel.name);
    CheckProblem problem(kernel.operands);
    const PackedWeight weight = problem.Weight(problem.weight.data());
    const Activation input = problem.Input(problem.in.data());
    const auto run = [&](const GemmKernel& by, int32_t shape) {
      std::vector<float> out(CheckProblem::kOuts, NAN);
      const RotateAndStoreKvParams heads = problem.Heads(out.data());
      GemmParams params{&input,
                        &weight,
                        problem.bias.data(),
                        kernel.paired ? nullptr : problem.residual.data(),
                        out.data(),
                        CheckProblem::kColumns,
                        CheckProblem::kRows};
      if (by.paired) params.heads = &heads;
      TileCall call = TileCallOf(params, 0, CheckProblem::kRows, false, nullptr);
      call.tile_shape = shape;
      call.multiprocessors = 2;
      by.launch(call, nullptr);
      return out;
    };
    const std::vector<float> expected = run(*FindGemmKernel(80, weight, GemmPhase::kDecode), 0);
    const std::vector<float> first = run(kernel, 1);
    for (int32_t shape = 1; shape <= kernel.checked_shapes; ++shape) {
      std::vector<float> out = run(kernel, shape);
      EXPECT_TRUE(ChecksAgree(problem.precision, expected, out)) << shape;
      EXPECT_EQ(out, first) << shape;
      out[CheckProblem::kOuts - 1] += 2 * CheckToleranceOf(problem.precision);
      EXPECT_FALSE(ChecksAgree(problem.precision, expected, out));
      out[CheckProblem::kOuts - 1] = NAN;
      EXPECT_FALSE(ChecksAgree(problem.precision, expected, out));
    }
  }
}

// A prompt's length chooses between the two, so that the device's check wants the same bits.
TEST(GemmCheck, CodesHaveTheBitsOfTheirValues) {
  CheckProblem coded(1U << static_cast<unsigned>(GemmOperand::kCodes));
  CheckProblem expanded = coded.Expanded();
  std::vector<float> outs[2];
  for (CheckProblem* problem : {&coded, &expanded}) {
    std::vector<float>& out = outs[problem == &expanded ? 1 : 0];
    out.assign(CheckProblem::kOuts, NAN);
    const PackedWeight weight = problem->Weight(problem->weight.data());
    const Activation input = problem->Input(problem->in.data());
    const GemmParams params{&input,
                            &weight,
                            problem->bias.data(),
                            problem->residual.data(),
                            out.data(),
                            CheckProblem::kColumns,
                            CheckProblem::kRows};
    TileCall call = TileCallOf(params, 0, CheckProblem::kRows, false, nullptr);
    call.multiprocessors = 132;
    FindGemmKernel(90, weight, GemmPhase::kPrefill)->launch(call, nullptr);
  }
  EXPECT_EQ(OperandOf(expanded.Weight(nullptr)), GemmOperand::kBf16);
  EXPECT_EQ(outs[0], outs[1]);
}

TEST(WgmmaPlan, TilesFollowTheShapeAndBandsCoverEveryTileOnce) {
  const auto shape_of = [](int32_t rows, int64_t columns, int32_t tile_shape) {
    TileCall call{};
    call.num_rows = rows;
    call.columns = columns;
    call.multiprocessors = 132;
    call.tile_shape = tile_shape;
    return WgmmaTileShapeOf(call);
  };
  EXPECT_EQ(shape_of(8192, 8192, 0), WgmmaTileShape::k128x256);
  EXPECT_EQ(shape_of(2048, 14336, 0), WgmmaTileShape::k128x128);
  EXPECT_EQ(shape_of(512, 1024, 0), WgmmaTileShape::k64x128);
  EXPECT_EQ(shape_of(65, 4096, 0), WgmmaTileShape::k64x128);
  EXPECT_EQ(shape_of(64, 1 << 20, 1), WgmmaTileShape::k128x256);
  EXPECT_EQ(shape_of(8192, 8192, kWgmmaTileShapes), WgmmaTileShape::kSwapped8x16);
  // Up to 64 rows weights are on the M side, in tiles of 16 where 64 outputs each are fewer than 64.
  EXPECT_EQ(shape_of(64, 1 << 20, 0), WgmmaTileShape::kSwapped64x64);
  EXPECT_EQ(shape_of(33, 16, 0), WgmmaTileShape::kSwapped64x64);
  EXPECT_EQ(shape_of(32, 28672, 0), WgmmaTileShape::kSwapped32x64);
  EXPECT_EQ(shape_of(16, 4096, 0), WgmmaTileShape::kSwapped16x64);
  EXPECT_EQ(shape_of(9, 4032, 0), WgmmaTileShape::kSwapped16x16);
  EXPECT_EQ(shape_of(8, 4096, 0), WgmmaTileShape::kSwapped8x64);
  EXPECT_EQ(shape_of(1, 2048, 0), WgmmaTileShape::kSwapped8x16);
  using Tile = Wgmma64x128<Bf16Format>;
  for (const auto& [rows, columns, raster] : {std::tuple{37, 5, 16}, {16, 3, 16}, {1, 1, 32}, {40, 2, 32}}) {
    WgmmaCall call{};
    call.row_tiles = rows;
    call.column_tiles = columns;
    call.raster = raster;
    std::vector<int> taken(static_cast<size_t>(rows * columns));
    for (int32_t tile = 0; tile < rows * columns; ++tile) {
      const WgmmaPlace place = PlaceOfTile<Tile>(call, call.row_tiles, tile);
      ++taken.at(static_cast<size_t>(place.row / Tile::kRows * columns + place.column / Tile::kColumns));
    }
    for (const int count : taken) EXPECT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
