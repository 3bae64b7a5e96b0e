// SPDX-License-Identifier: Apache-2.0
// Launches of batches, the division of grouped launches, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "tests/kernels/cuda/gemm/grouped_runner.h"

namespace dunlin::kernels::cuda {
namespace {

// As many batches at once as the scratch has rows for: the same bits.
TEST(BatchedGemm, MatchesTheTileGemmOfEachBatch) {
  constexpr int32_t kBatches = 3;
  constexpr int64_t kColumns = 20;
  constexpr int64_t kDepth = 68;
  constexpr int64_t kStride = kBatches * (kColumns + 4);
  for (const TileOperands& operands : kOperands) {
    for (const int32_t rows : {1, 37}) {
      for (const int32_t capacity : {rows, 2 * rows + 1, kBatches * rows}) {
        SCOPED_TRACE(NameOf(operands) + " rows " + std::to_string(rows) + " of " + std::to_string(capacity));
        const Weights weights(operands, kBatches, kColumns, kDepth);
        std::vector<float> out(static_cast<size_t>(rows * kStride), NAN);
        const HostMatrix scratch(operands.precision, capacity, kDepth, operands.scale_block);
        const Activation rounded = ActivationOf(scratch);
        const std::vector<float> unread(static_cast<size_t>(kDepth));
        const BatchedGemmParams params{.in = unread.data(),
                                       .in_stride = kDepth,
                                       .in_batch_stride = 0,
                                       .rounded = &rounded,
                                       .weights = weights.list.data(),
                                       .num_batches = kBatches,
                                       .out = out.data(),
                                       .out_stride = kStride,
                                       .out_batch_stride = kColumns + 4,
                                       .num_rows = rows};
        ASSERT_TRUE(IsValid(params));
        const int32_t at_once = BatchesPerLaunch(params);
        EXPECT_EQ(at_once, std::min(kBatches, capacity / rows));
        for (int32_t first = 0; first < kBatches; first += at_once) {
          const int32_t count = std::min(at_once, kBatches - first);
          FillRandom(scratch, static_cast<uint32_t>(1 + first));
          RunCall(CallOf(params, first, count), operands.precision);
          for (int32_t b = 0; b < count; ++b) {
            for (int64_t row = 0; row < rows; ++row) {
              const float* of_row = out.data() + row * kStride + (first + b) * (kColumns + 4);
              const auto batch = static_cast<size_t>(first + b);
              ASSERT_NO_FATAL_FAILURE(
                  ExpectIsTheProduct(of_row, weights.matrices[batch], weights.biases[batch], scratch, b * rows + row));
              ASSERT_TRUE(std::isnan(of_row[kColumns])) << "between the batches nothing is written";
            }
          }
        }
      }
    }
  }
}

TEST(GroupedPlan, BlocksSufficeForAnyDivision) {
  GroupedCall call{};
  call.tile.columns = 130;
  call.num_groups = 4;
  for (const std::vector<int32_t>& counts :
       {std::vector<int32_t>{1, 1, 1, 1}, {0, 0, 0, 4}, {17, 33, 1, 16}, {64, 0, 0, 65}}) {
    const std::vector<ExpertRows> groups = GroupsOf(counts);
    call.groups = groups.data();
    call.tile.num_rows = std::accumulate(counts.begin(), counts.end(), 0);
    for (const int row_groups : {1, 2, 4}) {
      std::set<std::pair<int32_t, int32_t>> places;
      const auto row_blocks = static_cast<int32_t>(BlocksOf(call, row_groups) / 3);
      for (int32_t block = 0; block < row_blocks; ++block) {
        alignas(int32_t) unsigned char shared[4 * kBlockThreads];
        const GroupPlace place = FindGroup(call, row_groups * kGroupRows, block, shared);
        if (place.group < 0) continue;
        EXPECT_LT(place.row, counts[static_cast<size_t>(place.group)]);
        EXPECT_TRUE(places.insert({place.group, place.row}).second) << "one block for each place";
      }
      size_t expected = 0;
      for (const int32_t count : counts)
        expected += static_cast<size_t>((count + row_groups * 16 - 1) / (row_groups * 16));
      EXPECT_EQ(places.size(), expected);
    }
  }
}

TEST(GroupedPlan, RefusesWhatItCannotMultiply) {
  const Weights weights({Precision::kBf16, 0}, 2, 8, 16);
  const HostMatrix in(Precision::kBf16, 5, 16);
  const Activation activation = ActivationOf(in);
  const std::vector<ExpertRows> groups = GroupsOf({2, 3});
  float out[40];
  const GroupedGemmParams good{.in = &activation,
                               .weights = weights.list.data(),
                               .num_groups = 2,
                               .groups = groups.data(),
                               .out = out,
                               .out_stride = 8,
                               .num_rows = 5};
  const auto valid = [&](const auto& change) {
    GroupedGemmParams params = good;
    change(params);
    return IsValid(params);
  };
  std::vector<BiasedWeight> unlike = weights.list;
  unlike[1].weight.out_features = 7;
  EXPECT_TRUE(valid([](GroupedGemmParams&) {}));
  EXPECT_FALSE(valid([](GroupedGemmParams& p) { p.in = nullptr; })) << "no input";
  EXPECT_FALSE(valid([](GroupedGemmParams& p) { p.groups = nullptr; })) << "no groups";
  EXPECT_FALSE(valid([](GroupedGemmParams& p) { p.num_groups = 0; })) << "no group";
  EXPECT_FALSE(valid([](GroupedGemmParams& p) { p.num_rows = 6; })) << "capacity";
  EXPECT_FALSE(valid([](GroupedGemmParams& p) { p.out_stride = 7; })) << "rows overlap";
  EXPECT_FALSE(valid([](GroupedGemmParams& p) { p.out = nullptr; })) << "no output";
  EXPECT_FALSE(valid([&](GroupedGemmParams& p) { p.weights = unlike.data(); })) << "a shape";
}

}  // namespace
}  // namespace dunlin::kernels::cuda
