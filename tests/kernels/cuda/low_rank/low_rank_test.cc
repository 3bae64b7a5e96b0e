// SPDX-License-Identifier: Apache-2.0
// The CUDA device's products of low-rank adapters on the host: the blocks and threads of every launch in turn, from the
// device's source, against the sums that kernels/api/low_rank.h defines, bit by bit, FP64 and the CPU device.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/low_rank/low_rank_plan.h"
#include "kernels/cuda/low_rank/low_rank_tile.h"
#include "tests/kernels/cuda/portable_cpu.h"
#include "tests/kernels/low_rank/low_rank_problem.h"

namespace dunlin::kernels::cuda {
namespace {

using testing::LowRankAdapter;

constexpr int32_t kLowRankIn = 87;
constexpr int32_t kLowRankOut = 700;
constexpr int32_t kLowRankRows = 1400;

// What lane 0 has after a warp's exchanges: halves of the lanes are added, down to one.
float Tree(std::array<float, kLowRankLanes> lanes) {
  for (int half = kLowRankLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[static_cast<size_t>(i)] += lanes[static_cast<size_t>(i + half)];
  }
  return lanes[0];
}

template <DType kType, int kTileRows>
void RunDownTile(const LowRankCall& call, const LowRankPlace& place) {
  for (int32_t rank = place.first; rank < place.first + kLowRankTileRanks; ++rank) {
    std::array<std::array<float, kLowRankLanes>, kTileRows> lanes{};
    for (int lane = 0; lane < kLowRankLanes; ++lane) {
      float sums[kTileRows];
      SumDownLane<kType, kTileRows>(call, place, rank, lane, sums);
      for (size_t i = 0; i < lanes.size(); ++i) lanes[i][static_cast<size_t>(lane)] = sums[i];
    }
    if (rank >= place.group->rank) continue;
    for (int32_t i = 0; i < place.num_rows; ++i) {
      LowRankHidden(call, place, i)[rank] = place.group->scale * Tree(lanes[static_cast<size_t>(i)]);
    }
  }
}

void RunLaunch(const LowRankCall& call) {
  for (int64_t tile = 0; tile < NumLowRankTiles<DownTiles>(call); ++tile) {
    const LowRankPlace place = FindLowRankTile<DownTiles>(call, tile);
    WithLowRankTile(place, [&](auto dtype, auto rows) { RunDownTile<dtype(), rows()>(call, place); });
  }
  for (int64_t tile = 0; tile < NumLowRankTiles<UpTiles>(call); ++tile) {
    const LowRankPlace place = FindLowRankTile<UpTiles>(call, tile);
    WithLowRankTile(place, [&](auto dtype, auto rows) {
      for (int32_t thread = 0; thread < kLowRankThreads; ++thread) {
        AddUpColumn<dtype(), rows()>(call, place, thread);
      }
    });
  }
}

class CudaLowRank : public ::testing::Test {
 protected:
  void SetUp() override {
    adapters_.resize(4);
    adapters_[0].Add(16, kLowRankIn, 0, 40, DType::kBF16, 10);
    adapters_[0].Add(3, kLowRankIn, 40, 151, DType::kF32, 20);
    adapters_[1].Add(1, kLowRankIn, 7, 1, DType::kF32, 30);
    adapters_[1].Add(18, kLowRankIn, 100, 130, DType::kF16, 50);
    adapters_[2].Add(131, kLowRankIn, 0, 699, DType::kBF16, 40);
    for (uint32_t i = 0; i < kLowRankPairsMax; ++i)
      adapters_[3].Add(2, kLowRankIn, static_cast<int32_t>(40 * i), 40, DType::kF16, 60 + i);
    in_ = testing::LowRankValues(int64_t{kLowRankRows} * kLowRankIn, 1);
    before_ = testing::LowRankValues(int64_t{kLowRankRows} * kLowRankOut, 2);
  }

  AddLowRankParams Params(const testing::LowRankUses& uses, std::vector<float>* out,
                          std::vector<float>* scratch) const {
    scratch->assign(uses.scratch_floats, std::numeric_limits<float>::quiet_NaN());
    return {.in = in_.data(),
            .in_stride = kLowRankIn,
            .in_features = kLowRankIn,
            .uses = uses.list.data(),
            .num_uses = static_cast<int32_t>(uses.list.size()),
            .out = out->data(),
            .out_stride = kLowRankOut,
            .scratch = scratch->data()};
  }

  std::vector<float> Run(const std::vector<std::vector<int32_t>>& rows) {
    std::vector<float> out = before_;
    std::vector<float> scratch;
    const testing::LowRankUses uses(adapters_, rows);
    const AddLowRankParams params = Params(uses, &out, &scratch);
    EXPECT_TRUE(IsValid(params));
    const auto launch = [this](const LowRankCall& call) {
      ++launches_;
      RunLaunch(call);
    };
    LowRankLaunches(params, launch).Run();
    return out;
  }

  // The sums of kernels/api/low_rank.h, in their order.
  float Defined(const LowRankAdapter& adapter, int32_t row, int64_t column) const {
    float value = before_[static_cast<size_t>(row * kLowRankOut + column)];
    for (size_t p = 0; p < adapter.pairs.size(); ++p) {
      const LowRankPair& pair = adapter.pairs[p];
      const int64_t own = column - pair.first_column;
      if (own < 0 || own >= pair.out_features) continue;
      float sum = 0.0F;
      for (int64_t r = 0; r < pair.rank; ++r) {
        std::array<float, kLowRankLanes> lanes{};
        for (int64_t k = 0; k < kLowRankIn; ++k) {
          float& lane = lanes[static_cast<size_t>(k % kLowRankLanes)];
          lane = fmaf(in_[static_cast<size_t>(row * kLowRankIn + k)],
                      adapter.down[p].values[static_cast<size_t>(r * kLowRankIn + k)], lane);
        }
        sum =
            fmaf(pair.scale * Tree(lanes), adapter.up[p].values[static_cast<size_t>(r * pair.out_features + own)], sum);
      }
      value += sum;
    }
    return value;
  }

  // Two long runs of prompts, short ones, and single rows; every seventh row has no adapter.
  static std::vector<std::vector<int32_t>> MixedRows() {
    std::vector<std::vector<int32_t>> rows(4);
    for (int32_t row = 0; row < kLowRankRows; ++row) {
      const size_t owner = row < 1040 ? 0 : row < 1080 ? 2 : static_cast<size_t>(row % 4);
      if (row < 1080 || row % 7 != 0) rows[owner].push_back(row);
    }
    return rows;
  }

  std::vector<LowRankAdapter> adapters_;
  std::vector<float> in_;
  std::vector<float> before_;
  int launches_ = 0;
};

TEST_F(CudaLowRank, AddsTheSumsThatAreDefined) {
  const std::vector<std::vector<int32_t>> rows = MixedRows();
  const std::vector<float> out = Run(rows);
  EXPECT_GT(launches_, 1) << "else no launch was full";
  std::vector<float> cpu = before_;
  std::vector<float> scratch;
  const testing::LowRankUses uses(adapters_, rows);
  ASSERT_EQ(Cpu().ops->add_low_rank(Cpu().context, Params(uses, &cpu, &scratch)), KernelStatus::kOk);
  std::vector<bool> adapted(kLowRankRows);
  for (size_t adapter = 0; adapter < rows.size(); ++adapter) {
    for (const int32_t row : rows[adapter]) {
      adapted[static_cast<size_t>(row)] = true;
      for (int64_t column = row % 13; column < kLowRankOut; column += row < 1040 ? 97 : 13) {
        const auto at = static_cast<size_t>(row * kLowRankOut + column);
        ASSERT_EQ(out[at], Defined(adapters_[adapter], row, column)) << "row " << row << " column " << column;
        ASSERT_NEAR(out[at], before_[at] + adapters_[adapter].Exact(in_.data() + row * kLowRankIn, kLowRankIn, column),
                    2e-3);
        ASSERT_NEAR(out[at], cpu[at], 2e-3);
      }
    }
  }
  for (int32_t row = 0; row < kLowRankRows; ++row) {
    const auto begin = before_.begin() + row * kLowRankOut;
    const bool same = std::equal(begin, begin + kLowRankOut, out.begin() + row * kLowRankOut);
    ASSERT_EQ(same, !adapted[static_cast<size_t>(row)]) << "row " << row;
  }
}

TEST_F(CudaLowRank, ARowHasTheBitsThatItHasAlone) {
  const std::vector<std::vector<int32_t>> rows = MixedRows();
  const std::vector<float> together = Run(rows);
  for (size_t adapter = 0; adapter < rows.size(); ++adapter) {
    for (size_t i = 0; i < rows[adapter].size(); i += 41) {
      std::vector<std::vector<int32_t>> one(4);
      one[adapter] = {rows[adapter][i]};
      const std::vector<float> alone = Run(one);
      const int64_t at = int64_t{rows[adapter][i]} * kLowRankOut;
      ASSERT_TRUE(std::equal(alone.begin() + at, alone.begin() + at + kLowRankOut, together.begin() + at))
          << "row " << at / kLowRankOut;
    }
  }
}

TEST_F(CudaLowRank, RefusesParametersOutsideTheContract) {
  const int32_t row = 0;
  std::vector<float> out = before_;
  std::vector<float> scratch(64);
  LowRankPair pair = adapters_[1].pairs[0];
  LowRankUse use{&pair, 1, &row, 1};
  AddLowRankParams params{in_.data(), kLowRankIn, kLowRankIn, &use, 1, out.data(), kLowRankOut, scratch.data()};
  EXPECT_TRUE(IsValid(params));
  pair.rank = kLowRankMax + 1;
  EXPECT_FALSE(IsValid(params)) << "rank";
  pair.rank = 1;
  pair.dtype = DType::kF8E4M3;
  EXPECT_FALSE(IsValid(params)) << "dtype";
  pair.dtype = DType::kF32;
  pair.first_column = kLowRankOut;
  EXPECT_FALSE(IsValid(params)) << "columns past the row";
  pair.first_column = 0;
  use.num_rows = 0;
  EXPECT_FALSE(IsValid(params)) << "no rows";
  params.num_uses = 0;
  EXPECT_TRUE(IsValid(params)) << "nothing to add";
  params.in_stride = kLowRankIn - 1;
  EXPECT_FALSE(IsValid(params)) << "in_stride";
}

}  // namespace
}  // namespace dunlin::kernels::cuda
