// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters against FP64, and their bit contract: a row's bits are those that it has alone, whatever rows and
// adapters a call has with it, and rows without an adapter are not touched.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/cpu/cpu_fixture.h"
#include "tests/kernels/low_rank/low_rank_problem.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

using testing::LowRankAdapter;

// What the adapters add to [num_rows, out_features] rows of `in`. rows: of each adapter.
class LowRank : public CpuVariants {
 protected:
  static constexpr int64_t kIn = 87;    // no multiple of a vector
  static constexpr int64_t kOut = 700;  // columns of the projection, more than an item has
  static constexpr int32_t kRows = 150;

  void SetUp() override {
    adapters_.resize(3);
    adapters_[0].Add(16, kIn, 0, 40, DType::kBF16, 10);
    adapters_[0].Add(3, kIn, 40, 51, DType::kF32, 20);
    adapters_[1].Add(1, kIn, 7, 1, DType::kF32, 30);
    adapters_[1].Add(18, kIn, 100, 130, DType::kF16, 50);
    adapters_[2].Add(131, kIn, 0, 699, DType::kBF16, 40);
    in_ = RandomMatrix(kRows, kIn, 1);
    before_ = RandomMatrix(kRows, kOut, 2);
  }

  std::vector<float> Run(const std::vector<std::vector<int32_t>>& rows) {
    std::vector<float> out = before_;
    const testing::LowRankUses uses(adapters_, rows);
    std::vector<float> scratch(uses.scratch_floats, kNaN);
    const AddLowRankParams params{.in = in_.data(),
                                  .in_stride = kIn,
                                  .in_features = kIn,
                                  .uses = uses.list.data(),
                                  .num_uses = static_cast<int32_t>(uses.list.size()),
                                  .out = out.data(),
                                  .out_stride = kOut,
                                  .scratch = scratch.data()};
    EXPECT_EQ(device_->ops->add_low_rank(device_->context, params), KernelStatus::kOk);
    return out;
  }

  double Exact(const LowRankAdapter& adapter, int32_t row, int64_t column) const {
    const auto at = static_cast<size_t>(row * kOut + column);
    return before_[at] + adapter.Exact(in_.data() + row * kIn, kIn, column);
  }

  std::vector<LowRankAdapter> adapters_;
  std::vector<float> in_;
  std::vector<float> before_;
};

TEST_P(LowRank, MatchesFp64AndLeavesOtherRowsAlone) {
  std::vector<std::vector<int32_t>> rows(3);
  std::vector<int> owner(kRows, -1);
  for (int32_t row = 0; row < kRows; ++row) {
    owner[static_cast<size_t>(row)] = row % 4 - 1;
    if (row % 4 > 0) rows[static_cast<size_t>(row % 4 - 1)].push_back(row);
  }
  const std::vector<float> out = Run(rows);
  for (int32_t row = 0; row < kRows; ++row) {
    const int own = owner[static_cast<size_t>(row)];
    for (int64_t column = 0; column < kOut; ++column) {
      const auto at = static_cast<size_t>(row * kOut + column);
      if (own < 0) {
        ASSERT_EQ(out[at], before_[at]) << "row " << row << " has no adapter";
      } else {
        ASSERT_NEAR(out[at], Exact(adapters_[static_cast<size_t>(own)], row, column), 2e-3)
            << "row " << row << " column " << column;
      }
    }
  }
}

TEST_P(LowRank, ARowHasTheBitsThatItHasAlone) {
  std::vector<std::vector<int32_t>> rows(3);
  for (int32_t row = kRows; row-- > 0;) rows[static_cast<size_t>(row * 7 % 3)].push_back(row);  // in any order
  const std::vector<float> together = Run(rows);
  for (size_t adapter = 0; adapter < rows.size(); ++adapter) {
    for (const int32_t row : rows[adapter]) {
      std::vector<std::vector<int32_t>> one(3);
      one[adapter] = {row};
      const std::vector<float> alone = Run(one);
      const auto begin = alone.begin() + row * kOut;
      ASSERT_TRUE(std::equal(begin, begin + kOut, together.begin() + row * kOut)) << "row " << row;
    }
  }
}

TEST_P(LowRank, RefusesParametersOutsideTheContract) {
  const int32_t row = 0;
  std::vector<float> out = before_;
  std::vector<float> scratch(64);
  LowRankPair pair = adapters_[1].pairs[0];
  LowRankUse use{&pair, 1, &row, 1};
  AddLowRankParams params{in_.data(), kIn, kIn, &use, 1, out.data(), kOut, scratch.data()};
  const auto run = [&] { return device_->ops->add_low_rank(device_->context, params); };
  EXPECT_EQ(run(), KernelStatus::kOk);
  pair.rank = kLowRankMax + 1;
  EXPECT_EQ(run(), KernelStatus::kInvalidArgument) << "rank";
  pair.rank = 1;
  pair.dtype = DType::kF8E4M3;
  EXPECT_EQ(run(), KernelStatus::kInvalidArgument) << "dtype";
  pair.dtype = DType::kF32;
  pair.first_column = static_cast<int32_t>(kOut);
  EXPECT_EQ(run(), KernelStatus::kInvalidArgument) << "columns past the row";
  pair.first_column = 0;
  use.num_rows = 0;
  EXPECT_EQ(run(), KernelStatus::kInvalidArgument) << "no rows";
  params.num_uses = 0;
  EXPECT_EQ(run(), KernelStatus::kOk) << "nothing to add";
  params.in_stride = kIn - 1;
  EXPECT_EQ(run(), KernelStatus::kInvalidArgument) << "in_stride";
}

DUNLIN_FOR_EVERY_CPU_VARIANT(LowRank);

}  // namespace
}  // namespace dunlin::kernels
