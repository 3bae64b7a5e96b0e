// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters against FP64, and their bit contract: a row's bits are those that it has alone, whatever rows and
// adapters a call has with it, and rows without an adapter are not touched.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

constexpr float kScale = 0.75F;

// A matrix [rank, features] as LowRankPair has it, and its values.
struct Matrix {
  std::vector<float> values;  // [rank, features], exact in the dtype
  std::vector<std::byte> stored;
};

// place(r, i): the element where the matrix has [r, i].
template <typename Place>
Matrix MakeMatrix(int32_t rank, int64_t features, DType dtype, uint32_t seed, int64_t elements, const Place& place) {
  Matrix matrix{RandomMatrix(rank, features, seed), {}};
  matrix.stored.resize(static_cast<size_t>(elements) * SizeOf(dtype));
  for (int64_t r = 0; r < rank; ++r) {
    for (int64_t i = 0; i < features; ++i) {
      float& value = matrix.values[static_cast<size_t>(r * features + i)];
      std::byte* at = matrix.stored.data() + static_cast<size_t>(place(r, i)) * SizeOf(dtype);
      if (dtype == DType::kBF16) {
        const uint16_t bits = FloatToBf16(value);
        value = Bf16ToFloat(bits);
        std::memcpy(at, &bits, 2);
      } else {
        std::memcpy(at, &value, 4);
      }
    }
  }
  return matrix;
}

Matrix MakeDown(int32_t rank, int64_t features, DType dtype, uint32_t seed) {
  const int64_t stride = LowRankStride(features);
  return MakeMatrix(rank, features, dtype, seed, rank * stride, [&](int64_t r, int64_t i) { return r * stride + i; });
}

Matrix MakeUp(int32_t rank, int64_t features, DType dtype, uint32_t seed) {
  return MakeMatrix(
      rank, features, dtype, seed, rank * LowRankPanels(features) * kLowRankPanel,
      [&](int64_t r, int64_t i) { return (i / kLowRankPanel * rank + r) * kLowRankPanel + i % kLowRankPanel; });
}

// An adapter of one projection.
struct TestAdapter {
  std::deque<Matrix> down;
  std::deque<Matrix> up;
  std::vector<LowRankPair> pairs;

  void Add(int32_t rank, int64_t in_features, int32_t first_column, int32_t out_features, DType dtype, uint32_t seed) {
    down.push_back(MakeDown(rank, in_features, dtype, seed));
    up.push_back(MakeUp(rank, out_features, dtype, seed + 1));
    pairs.push_back({.down = down.back().stored.data(),
                     .up = up.back().stored.data(),
                     .dtype = dtype,
                     .rank = rank,
                     .first_column = first_column,
                     .out_features = out_features,
                     .scale = kScale});
  }
};

// What the adapters add to [num_rows, out_features] rows of `in`. rows: of each adapter.
class LowRank : public CpuVariants {
 protected:
  static constexpr int64_t kIn = 87;    // no multiple of a vector
  static constexpr int64_t kOut = 700;  // columns of the projection, more than a task has
  static constexpr int32_t kRows = 150;

  void SetUp() override {
    adapters_.resize(3);
    adapters_[0].Add(16, kIn, 0, 40, DType::kBF16, 10);
    adapters_[0].Add(3, kIn, 40, 51, DType::kF32, 20);
    adapters_[1].Add(1, kIn, 7, 1, DType::kF32, 30);
    adapters_[2].Add(131, kIn, 0, 699, DType::kBF16, 40);
    in_ = RandomMatrix(kRows, kIn, 1);
    before_ = RandomMatrix(kRows, kOut, 2);
  }

  std::vector<float> Run(const std::vector<std::vector<int32_t>>& rows) {
    std::vector<float> out = before_;
    std::vector<LowRankUse> uses;
    size_t floats = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].empty()) continue;
      uses.push_back({adapters_[i].pairs.data(), static_cast<int32_t>(adapters_[i].pairs.size()), rows[i].data(),
                      static_cast<int32_t>(rows[i].size())});
      for (const LowRankPair& pair : adapters_[i].pairs) floats += static_cast<size_t>(pair.rank) * rows[i].size();
    }
    std::vector<float> scratch(floats, kNaN);
    const AddLowRankParams params{.in = in_.data(),
                                  .in_stride = kIn,
                                  .in_features = kIn,
                                  .uses = uses.data(),
                                  .num_uses = static_cast<int32_t>(uses.size()),
                                  .out = out.data(),
                                  .out_stride = kOut,
                                  .scratch = scratch.data()};
    EXPECT_EQ(device_->ops->add_low_rank(device_->context, params), KernelStatus::kOk);
    return out;
  }

  double Exact(const TestAdapter& adapter, int32_t row, int64_t column) const {
    double value = before_[static_cast<size_t>(row * kOut + column)];
    for (size_t p = 0; p < adapter.pairs.size(); ++p) {
      const LowRankPair& pair = adapter.pairs[p];
      const int64_t own = column - pair.first_column;
      if (own < 0 || own >= pair.out_features) continue;
      for (int64_t r = 0; r < pair.rank; ++r) {
        double hidden = 0.0;
        for (int64_t k = 0; k < kIn; ++k) {
          hidden += double{in_[static_cast<size_t>(row * kIn + k)]} *
                    double{adapter.down[p].values[static_cast<size_t>(r * kIn + k)]};
        }
        value +=
            double{kScale} * hidden * double{adapter.up[p].values[static_cast<size_t>(r * pair.out_features + own)]};
      }
    }
    return value;
  }

  std::vector<TestAdapter> adapters_;
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
  pair.dtype = DType::kF16;
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
