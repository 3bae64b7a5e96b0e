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

  std::vector<float> Run(const std::vector<std::vector<int32_t>>& rows) { return RunOn(*device_, rows); }
  std::vector<float> RunOn(const Device& device, const std::vector<std::vector<int32_t>>& rows) {
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
    EXPECT_EQ(device.ops->add_low_rank(device.context, params), KernelStatus::kOk);
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

// One thread has 8 runs. An item of the second product has 512 columns of 64 rows: 25 of them, so that runs of 4 go on
// in the next block, the next pair (items 3, 9, 15 and 23) and the next use (item 21). The first product has more.
TEST_P(LowRank, ARunGoesOnInTheNextRowsBlockPairAndUse) {
  constexpr int32_t kFirstRows = 130;
  adapters_.assign(2, {});
  adapters_[0].Add(17, kIn, 0, 400, DType::kBF16, 60);
  adapters_[0].Add(33, kIn, 30, 600, DType::kF32, 70);
  adapters_[0].Add(3, kIn, 0, 640, DType::kF16, 80);
  adapters_[0].Add(10, kIn, 50, 650, DType::kBF16, 90);
  adapters_[1].Add(9, kIn, 60, 530, DType::kF16, 100);
  adapters_[1].Add(20, kIn, 10, 690, DType::kBF16, 110);
  int32_t items = 0;
  for (const LowRankPair& pair : adapters_[0].pairs)
    items += (kFirstRows + 63) / 64 * ((pair.out_features + 511) / 512);
  for (const LowRankPair& pair : adapters_[1].pairs) items += (pair.out_features + 511) / 512;
  ASSERT_EQ(items, 25);
  std::vector<std::vector<int32_t>> rows(2);
  for (int32_t row = 0; row < kRows; ++row) rows[row < kFirstRows ? 0 : 1].push_back(row);
  const auto one_thread = Open(GetParam(), 1);
  const std::vector<float> out = RunOn(*one_thread, rows);
  for (int32_t row = 0; row < kRows; row += 3) {
    for (int64_t column = 0; column < kOut; column += 7) {
      ASSERT_NEAR(out[static_cast<size_t>(row * kOut + column)],
                  Exact(adapters_[row < kFirstRows ? 0 : 1], row, column), 2e-3)
          << "row " << row << " column " << column;
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
