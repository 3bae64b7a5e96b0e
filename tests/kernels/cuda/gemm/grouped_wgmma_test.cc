// SPDX-License-Identifier: Apache-2.0
// Whole launches of the wgmma GEMM on groups of rows on the host's machine: against FP64, and bit for bit against the
// product of each group alone, whatever the tile shape, the division of the rows and the order of events.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>

#include "kernels/cuda/gemm/check_problem.h"
#include "kernels/cuda/gemm/kernel.h"
#include "tests/kernels/cuda/gemm/grouped_product.h"

namespace dunlin::kernels::cuda {
namespace {

// Odd counts, none at either end, one row, all rows in one group, whole tiles and their next row.
const std::vector<std::vector<int32_t>> kGroupCounts = {{3, 0, 1, 29}, {0, 0, 5}, {1}, {0, 130, 0}, {65, 64, 0, 1}};

template <typename Format, typename Run>
void ForGroupedTiles(const Run& run) {
  for (int32_t shape = 0; shape < kGroupedTileShapes; ++shape) {
    SCOPED_TRACE("tile shape " + std::to_string(shape));
    WithGroupedTile<Format>(static_cast<GroupedTileShape>(shape), [&](auto tile) { run(tile, shape); });
  }
}

template <typename Format>
void CheckGroups(const TileOperands& operands) {
  for (size_t i = 0; i < kGroupCounts.size(); ++i) {
    const std::vector<int32_t>& counts = kGroupCounts[i];
    // Tails of columns and depth, with and without pairs of outputs.
    const int64_t columns = i % 2 == 0 ? 66 : 140;
    const int64_t depth = i % 2 == 0 ? 300 : 37;
    const int64_t stride = i % 2 == 0 ? 66 : 143;
    SCOPED_TRACE("groups " + std::to_string(counts.size()) + " columns " + std::to_string(columns));
    const GroupedProduct product(operands, counts, columns, depth, stride);
    const std::vector<float> alone = product.Alone<Wgmma64x128<Format>>();
    ForGroupedTiles<Format>([&](auto tile, int32_t shape) {
      const std::vector<float> out =
          product.Run<decltype(tile)>(shape % 2 == 0 ? 1 : 132, static_cast<uint64_t>(shape));
      ASSERT_EQ(out, alone);
    });
    for (size_t g = 0; g < counts.size(); ++g) {
      for (int32_t row = product.groups[g].first; row < product.groups[g].first + counts[g]; ++row) {
        ASSERT_NO_FATAL_FAILURE(ExpectIsTheProduct(alone.data() + row * stride, product.weights.matrices[g],
                                                   product.weights.biases[g], product.in, row));
      }
    }
  }
}
TEST(GroupedWgmma, HasTheBitsOfEachGroupAloneBf16) {
  CheckGroups<Bf16Format>({Precision::kBf16, 0});
}
TEST(GroupedWgmma, HasTheBitsOfEachGroupAloneFp16) {
  CheckGroups<Fp16Format>({Precision::kFp16, 0});
}
// Scales of rows and outputs, each weight's at its distance.
TEST(GroupedWgmma, HasTheBitsOfEachGroupAloneFp8) {
  CheckGroups<E4M3Format>({Precision::kFp8, 0});
}
// Scales of each 128 of K, which come with the stages.
TEST(GroupedWgmma, HasTheBitsOfEachGroupAloneFp8Blocks) {
  CheckGroups<E4M3Blocks>({Precision::kFp8, kScaleBlock});
}

// More groups than a warp has lanes, few blocks that take many tiles in turn, any order of events.
TEST(GroupedWgmma, ManyGroupsOnFewBlocksChangeNoBit) {
  std::vector<int32_t> counts(kWgmmaGroupsMax);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = i % 7 == 0 ? static_cast<int32_t>(i % 3) : 0;
  counts[77] = 20;
  const GroupedProduct product({Precision::kBf16, 0}, counts, 24, 72, 24);
  const std::vector<float> alone = product.Alone<Wgmma64x128<Bf16Format>>();
  for (uint64_t seed = 10; seed < 13; ++seed) {
    EXPECT_EQ((product.Run<GroupedSwapped<Bf16Format, 8>>(1, seed)), alone) << seed;
    EXPECT_EQ((product.Run<GroupedTile<Wgmma128x128<Bf16Format>>>(1, seed)), alone) << seed;
  }
}

// Batches: groups of as many rows each, whose outputs lie anywhere.
TEST(GroupedWgmma, BatchesHaveTheBitsOfEachAlone) {
  constexpr int32_t kBatches = 3;
  constexpr int64_t kColumns = 70;
  constexpr int64_t kStride = kBatches * (kColumns + 4);
  for (const int32_t rows : {1, 37}) {
    const GroupedProduct product({Precision::kBf16, 0}, std::vector<int32_t>(kBatches, rows), kColumns, 100, kColumns);
    const std::vector<float> alone = product.Alone<Wgmma64x128<Bf16Format>>();
    const std::vector<float> unread(100);
    ForGroupedTiles<Bf16Format>([&](auto tile, int32_t shape) {
      std::vector<float> out(static_cast<size_t>(rows * kStride), NAN);
      const BatchedGemmParams params{.in = unread.data(),
                                     .in_stride = 100,
                                     .in_batch_stride = 0,
                                     .rounded = &product.activation,
                                     .weights = product.list.data(),
                                     .num_batches = kBatches,
                                     .out = out.data(),
                                     .out_stride = kStride,
                                     .out_batch_stride = kColumns + 4,
                                     .num_rows = rows};
      GroupedTileCall call;
      ASSERT_TRUE(GroupedTileCallOf(params, 0, kBatches, &call));
      call.tile.multiprocessors = 1 + shape;
      ASSERT_EQ(RunGroupedWgmma<decltype(tile)>(call), "");
      for (int64_t i = 0; i < rows * kStride; ++i) {
        const int64_t batch = i % kStride / (kColumns + 4);
        const int64_t n = i % kStride % (kColumns + 4);
        if (n >= kColumns) {
          ASSERT_TRUE(std::isnan(out[static_cast<size_t>(i)])) << "between the batches nothing is written";
        } else {
          ASSERT_EQ(out[static_cast<size_t>(i)],
                    alone[static_cast<size_t>((batch * rows + i / kStride) * kColumns + n)]);
        }
      }
    });
  }
}

template <Precision kPrecision, typename Source>
HostMatrix WrittenRows(const Source& source, int64_t rows, int64_t columns) {
  HostMatrix next(kPrecision, rows, columns);
  RowTarget target{};
  target.out = next.view();
  for (int64_t row = 0; row < rows; ++row) WriteRow<kPrecision>(SingleLane(), source, target, row);
  return next;
}
void ExpectSameBytes(const HostMatrix& a, const HostMatrix& b) {
  const MatrixView& view = a.view();
  const auto bytes = static_cast<size_t>(MatrixBytes(view.precision, view.rows, view.columns, 0));
  EXPECT_EQ(std::memcmp(view.data, b.view().data, bytes), 0);
}

// In place of FP32 rows: gates, and tanh-GELU, rounded to the next input.
template <typename Format, Precision kPrecision>
void CheckNextInputs(ActivationKind kind) {
  GroupedProduct product({kPrecision, 0}, {9, 0, 66, 1}, 96, 200, 96);
  const std::vector<float> sums = product.Alone<Wgmma64x128<Format>>();
  for (const bool gated : {true, false}) {
    for (BiasedWeight& weight : product.list) weight.weight.gated = gated;
    const ActivationKind used = gated ? kind : ActivationKind::kGeluTanh;
    const int64_t columns = gated ? 48 : 96;
    const HostMatrix expected =
        WrittenRows<kPrecision>(ActivateSource{used, gated, sums.data(), columns, false}, product.rows(), columns);
    ForGroupedTiles<Format>([&](auto tile, int32_t shape) {
      const HostMatrix next(kPrecision, product.rows(), columns);
      Activation to = ActivationOf(next);
      GroupedGemmParams params = product.Params(nullptr);
      params.next = &to;
      params.activation = used;
      const GroupedTileCall call = product.Call(params, 1 + shape);
      if (gated) {
        ASSERT_EQ(RunGroupedWgmma<PairedTile<decltype(tile)>>(call), "");
      } else {
        ASSERT_EQ(RunGroupedWgmma<decltype(tile)>(call), "");
      }
      ExpectSameBytes(next, expected);
    });
  }
}
TEST(GroupedWgmma, NextInputsHaveTheBytesOfTheActivation) {
  CheckNextInputs<Bf16Format, Precision::kBf16>(ActivationKind::kSilu);
  CheckNextInputs<Fp16Format, Precision::kFp16>(ActivationKind::kGeluTanh);
}

// The rows of groups are what a kernel before writes, as the inputs are.
template <typename Tile>
void CheckGroupedOverlap(const TileOperands& operands) {
  GroupedProduct product(operands, {2, 0, 3}, 200, 1000, 200);
  const std::vector<ExpertRows> groups = product.groups;
  ExpectOnlyWeightsBeforeTheWait(product.in.view(), product.Poisoned(),
                                 [&](std::vector<float>* out, const MachineOptions& options) {
                                   MachineOptions with = options;
                                   product.groups = groups;
                                   if (options.preceding_begins != nullptr) {
                                     with.preceding_begins = [&] {
                                       options.preceding_begins();
                                       std::ranges::fill(product.groups, ExpertRows{});
                                     };
                                     with.preceding_ends = [&] {
                                       options.preceding_ends();
                                       std::ranges::copy(groups, product.groups.begin());
                                     };
                                   }
                                   return RunGroupedWgmma<Tile>(product.Call(product.Params(out->data()), 1), with);
                                 });
}
TEST(GroupedWgmma, NothingOfTheGroupsIsReadBeforeThePrecedingKernelEnds) {
  CheckGroupedOverlap<GroupedSwapped<Bf16Format, 8>>({Precision::kBf16, 0});
  CheckGroupedOverlap<GroupedSwapped<E4M3Blocks, 16>>({Precision::kFp8, kScaleBlock});
}

// From some call on, each mistake that the machine can make ends in a fault or in other values.
template <typename Tile>
void CheckGroupedMistakes(const TileOperands& operands) {
  const GroupedProduct product(operands, {5, 0, 2}, 130, 2000, 132);
  const std::vector<float> clean = product.Run<Tile>(1, 1);
  for (const Mistake mistake :
       {Mistake::kSkippedArrival, Mistake::kFewerBytes, Mistake::kMoreBytes, Mistake::kWrongParity,
        Mistake::kSkippedWait, Mistake::kSkippedBarrierFence, Mistake::kSkippedProductFence,
        Mistake::kSkippedProductWait, Mistake::kLateProductWait}) {
    for (const int at : {0, 40}) {
      const bool once = mistake == Mistake::kSkippedBarrierFence;
      std::vector<float> out = product.Poisoned();
      const std::string fault = RunGroupedWgmma<Tile>(product.Call(product.Params(out.data()), 1),
                                                      {.mistake = mistake, .mistake_at = once ? 0 : at});
      EXPECT_TRUE(!fault.empty() || out != clean) << static_cast<int>(mistake) << " at " << at;
    }
  }
}
TEST(GroupedWgmma, MistakesAreFound) {
  CheckGroupedMistakes<GroupedSwapped<Bf16Format, 8>>({Precision::kBf16, 0});
  CheckGroupedMistakes<GroupedTile<Wgmma128x128<E4M3Format>>>({Precision::kFp8, 0});
}

// What the device checks when it is opened, with the kernel that every device has as the other one.
TEST(GroupedCheck, AgreesWithTheOtherKernelAndFindsAWrongElement) {
  for (const GroupedGemmKernel& kernel : GroupedGemmKernels()) {
    SCOPED_TRACE(kernel.name);
    GroupedCheckProblem problem(kernel.operands);
    const Precision precision = problem.problems[0].precision;
    const Activation input = problem.problems[0].Input(problem.problems[0].in.data());
    const std::vector<BiasedWeight> weights =
        problem.Weights(problem.weights.data(), problem.biases.data(), kernel.gates);
    std::vector<float> expected(CheckProblem::kOuts);
    for (size_t g = 0; g < weights.size(); ++g) {
      const ExpertRows& rows = GroupedCheckProblem::kGroupRows[g];
      if (rows.count == 0) continue;
      const GemmParams params{&input,          &weights[g].weight,     weights[g].bias,    nullptr,
                              expected.data(), CheckProblem::kColumns, CheckProblem::kRows};
      FindGemmKernel(80, weights[g].weight, GemmPhase::kDecode)
          ->launch(TileCallOf(params, rows.first, rows.count, false, nullptr), nullptr);
    }
    if (kernel.gates) expected = GatesOf(expected);
    std::vector<float> first;
    for (int32_t shape = 1; shape <= kernel.checked_shapes; ++shape) {
      std::vector<float> out(CheckProblem::kOuts, NAN);
      Activation next{.data = out.data(), .precision = precision, .capacity_rows = CheckProblem::kRows};
      next.columns = CheckProblem::kColumns / 2;
      const GroupedGemmParams params{.in = &input,
                                     .weights = weights.data(),
                                     .num_groups = GroupedCheckProblem::kGroups,
                                     .groups = GroupedCheckProblem::kGroupRows,
                                     .out = kernel.gates ? nullptr : out.data(),
                                     .out_stride = CheckProblem::kColumns,
                                     .num_rows = CheckProblem::kRows,
                                     .next = kernel.gates ? &next : nullptr,
                                     .activation = ActivationKind::kSilu};
      GroupedTileCall call;
      ASSERT_TRUE(GroupedTileCallOf(params, 0, params.num_groups, &call));
      call.tile.tile_shape = shape;
      call.tile.multiprocessors = 2;
      kernel.launch(call, nullptr);
      if (kernel.gates) {
        const auto bytes = static_cast<size_t>(CheckProblem::kRows * RowBytes(precision, next.columns));
        out = StoredGates({reinterpret_cast<const unsigned char*>(out.data()), bytes}, precision);
      }
      const auto agrees = [&] {
        return kernel.gates ? GatesAgree(expected, out) : ChecksAgree(precision, expected, out);
      };
      EXPECT_TRUE(agrees()) << shape;
      if (shape == 1) first = out;
      EXPECT_EQ(out, first) << shape;
      out.back() += 1.0F + 0.1F * std::fabs(out.back());
      EXPECT_FALSE(agrees());
      out.back() = NAN;
      EXPECT_FALSE(agrees());
    }
  }
}

TEST(GroupedPlan, TilesFollowTheMeanOfTheRows) {
  const auto shape_of = [](int32_t rows, int32_t groups, int64_t columns) {
    GroupedTileCall call;
    call.tile.num_rows = rows;
    call.tile.columns = columns;
    call.tile.multiprocessors = 132;
    call.num_groups = groups;
    return GroupedTileShapeOf(call);
  };
  EXPECT_EQ(shape_of(8, 128, 1536), GroupedTileShape::kSwapped8x64) << "a token's experts have a row each";
  EXPECT_EQ(shape_of(512, 128, 1536), GroupedTileShape::kSwapped8x64);
  EXPECT_EQ(shape_of(64, 8, 28672), GroupedTileShape::kSwapped16x64);
  EXPECT_EQ(shape_of(16 * 128, 128, 1536), GroupedTileShape::kSwapped32x64);
  EXPECT_EQ(shape_of(8192, 128, 1536), GroupedTileShape::kSwapped64x64);
  EXPECT_EQ(shape_of(8 * 1024, 64, 1536), GroupedTileShape::k128x128);
  EXPECT_EQ(shape_of(100 * 8, 8, 4096), GroupedTileShape::k64x128);
  EXPECT_EQ(shape_of(2 * 2048, 8, 28672), GroupedTileShape::k128x256);
  EXPECT_EQ(shape_of(2 * 2048, 8, 64), GroupedTileShape::k128x128) << "too few tiles of the largest";
}

TEST(GroupedPlan, WeightsAtUnequalDistancesAreRefused) {
  const GroupedProduct product({Precision::kBf16, 0}, {1, 1, 1}, 16, 16, 16);
  std::vector<BiasedWeight> list = product.list;
  std::vector<float> out = product.Poisoned();
  GroupedGemmParams params = product.Params(out.data());
  params.weights = list.data();
  GroupedTileCall call;
  EXPECT_TRUE(GroupedTileCallOf(params, 0, 3, &call));
  EXPECT_EQ(call.bias_stride, 16 + 3);
  list[2].bias += 1;
  EXPECT_FALSE(GroupedTileCallOf(params, 0, 3, &call));
  list = product.list;
  std::swap(list[0], list[2]);
  EXPECT_FALSE(GroupedTileCallOf(params, 0, 3, &call)) << "downwards";
  list = product.list;
  list[2] = list[1];
  EXPECT_FALSE(GroupedTileCallOf(params, 0, 3, &call));
  for (BiasedWeight& weight : list) weight.bias = nullptr;
  list[2].weight.data = product.list[2].weight.data;
  EXPECT_TRUE(GroupedTileCallOf(params, 0, 3, &call));
}

TEST(GroupedPlan, OnlyTheDeviceOfTheKernelHasIt) {
  const GroupedProduct product({Precision::kBf16, 0}, {1}, 16, 16, 16);
  const PackedWeight& weight = product.list[0].weight;
  EXPECT_NE(FindGroupedKernel(90, weight, false, 0), nullptr);
  EXPECT_NE(FindGroupedKernel(90, weight, true, 0), nullptr);
  EXPECT_EQ(FindGroupedKernel(80, weight, false, 0), nullptr);
  EXPECT_EQ(FindGroupedKernel(100, weight, false, 0), nullptr);
  EXPECT_EQ(FindGroupedKernel(90, weight, false, CheckedGemms()), nullptr);
  PackedWeight fp32 = weight;
  fp32.precision = Precision::kFp32;
  EXPECT_EQ(FindGroupedKernel(90, fp32, false, 0), nullptr);
  std::map<uint32_t, int> bits;
  for (size_t i = 0; i < GemmKernels().size(); ++i) ++bits[1U << i];
  for (size_t i = 0; i < GroupedGemmKernels().size(); ++i) ++bits[BitOfGrouped(i)];
  for (const auto& [bit, count] : bits) EXPECT_EQ(count, 1) << bit;
}

}  // namespace
}  // namespace dunlin::kernels::cuda
