// SPDX-License-Identifier: Apache-2.0
// ShareColumnsParams by the device's code on the host: each rank's launches on threads of their own, a thread for every
// lane, over a model of memory in which other devices see a store once it is released. Nothing synchronises ranks but
// their signals.
#include "kernels/cuda/ranks/share_columns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/kernels/cuda/ranks/rank_rows.h"

namespace dunlin::kernels::cuda {
namespace {

class CudaShareColumns : public ::testing::TestWithParam<RankPath> {};
INSTANTIATE_TEST_SUITE_P(Paths, CudaShareColumns, ::testing::Values(RankPath::kPeerMemory, RankPath::kHostMemory),
                         [](const auto& test) {
                           return test.param == RankPath::kPeerMemory ? "peer_memory" : "host_memory";
                         });

TEST_P(CudaShareColumns, EveryRankHasAllColumnsWhateverTheShape) {
  const Rows cases[] = {{2, 1, 4096}, {2, 5, 37},    {3, 7, 44},   {4, 1, 3, 1},
                        {8, 3, 256},  {4, 3, 20, 3}, {3, 2, 7, 5}, {2, 0, 16}};
  for (const Rows& rows : cases) {
    SCOPED_TRACE(std::to_string(rows.num_ranks) + " ranks, " + std::to_string(rows.num_rows) + " x " +
                 std::to_string(rows.columns));
    for (const uint32_t num_blocks : {1U, 3U}) {
      Team team(rows, GetParam());
      team.RunAll(3, num_blocks);
      EXPECT_FALSE(team.wrong);
    }
  }
}

TEST_P(CudaShareColumns, RepeatedMeetingsNeedNoResetAndNoCommonPace) {
  for (const int32_t late : {-1, 0, 2}) {
    Team team({3, 2, 28}, GetParam());
    team.late = late;
    team.RunAll(12, 2);
    EXPECT_FALSE(team.wrong) << "late rank " << late;
  }
}

TEST_P(CudaShareColumns, CountsOfMeetingsMayWrap) {
  Team team({2, 2, 12}, GetParam(), UINT32_MAX - 2);
  team.late = 1;
  team.RunAll(6, 2);
  EXPECT_FALSE(team.wrong);
}

// The check above would see what it is for.
TEST_P(CudaShareColumns, AMissingReleaseAndAWrongCountAreSeen) {
  std::vector<RankFault> faults = {RankFault::kCountsWithoutRelease, RankFault::kPublishesWithoutRelease,
                                   RankFault::kAheadByOne};
  if (GetParam() == RankPath::kHostMemory) faults.push_back(RankFault::kOneStage);
  for (const RankFault fault : faults) {
    Team team({2, 2, 16}, GetParam());
    team.fault = fault;
    team.late = 0;
    team.RunAll(4, 2);
    EXPECT_TRUE(team.wrong) << "fault " << static_cast<int>(fault);
  }
}

TEST_P(CudaShareColumns, TheHostEndsAllWaiting) {
  Team team({3, 2, 16}, GetParam());
  std::atomic<int> ended{0};
  std::vector<std::thread> ranks;
  for (const int32_t rank : {0, 2}) {
    ranks.emplace_back([&, rank] {
      team.Run(rank, 0, 2);
      ++ended;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ended, 0) << "rank 1 never comes";
  std::atomic_ref(team.stop).store(1);
  for (std::thread& rank : ranks) rank.join();
  const StagedNote note = team.note(0, 0);
  team.Run(0, 1, 1);  // and from then on nobody waits
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(team.note(0, 0).num_units, note.num_units) << "nor writes what a rank that came may still read";
}

// Rows by their tokens: each rank has those of some, and keeps its own copy of the rest. The host's memory holds three.
TEST_P(CudaShareColumns, RowsGoByTheirIds) {
  constexpr int32_t kColumns = 8;
  constexpr int64_t kStage = 3 * (kColumns + 1);
  const std::vector<int32_t> ids = {5, -1, 0, 9, 4, 12, 7};
  struct Rank {
    std::vector<float> own;
    std::vector<float> out;
    RankCounts counts{};
    RankSignals signals{};
    StagedNote notes[2] = {};
    std::vector<float> staged[2] = {std::vector<float>(kStage), std::vector<float>(kStage)};
    StagedNote taken[kMaxLinkedRanks] = {};
  } ranks[2];
  const uint32_t stop = 0;
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].own.assign(ids.size() * kColumns, static_cast<float>(rank + 1));
    ranks[rank].out.assign(ids.size() * kColumns, 0.0F);
  }
  const auto link = [&](int rank, ShareCall* call) {
    call->signals[0] = &ranks[0].signals;
    call->signals[1] = &ranks[1].signals;
    call->counts = &ranks[rank].counts;
    call->stop = &stop;
  };
  const auto run_stage = [&](StageCall& call) {
    link(call.share.rank, &call.share);
    for (int rank = 0; rank < 2; ++rank) {
      for (int turn = 0; turn < 2; ++turn) {
        call.stages[rank][turn] = {&ranks[rank].notes[turn], ranks[rank].staged[turn].data()};
      }
    }
    call.taken = ranks[call.share.rank].taken;
    RunRankBlocks(2, RankFault::kNone, [&](const ThreadLanes& lanes, const RankMemory& memory, uint32_t block) {
      StageBlock(lanes, memory, call, block, 2);
    });
  };
  const auto run = [&](int rank) {
    ShareColumnsParams params{};
    params.rank = rank;
    params.in = ranks[rank].own.data();
    params.in_stride = params.out_stride = kColumns;
    params.out[0] = ranks[0].out.data();
    params.out[1] = ranks[1].out.data();
    params.ids = ids.data();
    params.first_id = rank * 5;  // 0 to 4, 5 to 9
    params.num_ids = 5;
    params.num_rows = static_cast<int32_t>(ids.size());
    params.num_blocks = 1;
    params.columns = kColumns;
    if (GetParam() == RankPath::kHostMemory) {
      return ForEachStage(params, 2, kStage, [&](StageCall& call, int32_t /*rows*/) { run_stage(call); });
    }
    ShareCall call = ShareCallOf(params, 2);
    link(rank, &call);
    RunRankBlocks(2, RankFault::kNone, [&](const ThreadLanes& lanes, const RankMemory& memory, uint32_t block) {
      ShareBlock(lanes, memory, call, block, 2);
    });
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  EXPECT_EQ(ranks[0].out, ranks[1].out);
  for (size_t row = 0; row < ids.size(); ++row) {
    const float expected = ids[row] < 0 || ids[row] > 9 ? 0.0F : ids[row] < 5 ? 1.0F : 2.0F;
    EXPECT_EQ(ranks[0].out[row * kColumns], expected) << row;
    EXPECT_EQ(ranks[0].out[row * kColumns + kColumns - 1], expected) << row;
  }
}

TEST(CudaStagePieces, AllRanksCountThemAlike) {
  float memory[64] = {};
  ShareColumnsParams params{};
  params.in = memory;
  params.out[0] = params.out[1] = memory + 32;
  params.out_stride = 10;
  params.num_blocks = 1;
  const auto count = [&](int32_t rows, int32_t columns, int64_t stage_floats) {
    params.num_rows = rows;
    params.columns = columns;
    std::vector<std::string> launches;
    ForEachStage(params, 2, stage_floats, [&](const StageCall& call, int32_t) {
      launches.push_back(std::string(call.takes ? "takes " : "") + (call.gives ? "gives" : ""));
    });
    return launches;
  };
  const std::vector<std::string> three = {"gives", "takes gives", "takes gives", "takes "};
  EXPECT_EQ(count(5, 4, 29), three) << "two rows a piece";
  EXPECT_EQ(count(5, 0, 29), three) << "of a rank that has no columns, too";
  EXPECT_EQ(count(6, 10, 20), three);
  EXPECT_EQ(count(1, 4, 9).size(), 2U) << "a row is never divided";
  EXPECT_EQ(count(0, 4, 29), std::vector<std::string>{"gives"}) << "a meeting";
  EXPECT_EQ(count(INT32_MAX, 0, int64_t{10} * INT32_MAX).size(), 2U);
  params.columns = 4;
  EXPECT_TRUE(FitsStage(params, 5));
  EXPECT_FALSE(FitsStage(params, 4)) << "a flag follows";
}

TEST(CudaStagePieces, WhatNobodyReadsStaysHere) {
  alignas(16) float memory[64] = {};
  ShareColumnsParams params{};
  params.in = memory;
  params.in_stride = params.out_stride = 8;
  params.out[0] = memory + 32;
  params.num_rows = 2;
  params.num_blocks = 1;
  params.columns = 8;
  StageCall call = StageCallOf(params, 2);
  EXPECT_EQ(call.note.num_units, 0U);
  EXPECT_EQ(call.share.num_units, 4U);
  EXPECT_EQ(call.share.out[0], memory + 32) << "of its own";
  params.rank = 1;
  call = StageCallOf(PieceOf(params, 1, 1), 2);
  EXPECT_EQ(call.note.num_units, 2U);
  EXPECT_EQ(call.note.vector, 1U);
  EXPECT_EQ(call.note.out[0], memory + 40);
  EXPECT_EQ(call.share.out[0], nullptr) << "rank 0 takes them";
}

TEST(CudaShareCall, TakesFourFloatsAtOnceWhereAllIsAligned) {
  alignas(16) float memory[64] = {};
  ShareColumnsParams params{};
  params.in = memory;
  params.in_stride = 8;
  params.out[0] = memory;  // there already
  params.out[1] = memory + 16;
  params.out_stride = 16;
  params.num_rows = 2;
  params.num_blocks = 1;
  params.columns = 8;
  ShareCall call = ShareCallOf(params, 2);
  EXPECT_TRUE(call.vector);
  EXPECT_EQ(call.num_units, 4U);
  EXPECT_EQ(call.out[0], nullptr);
  for (const auto& change : std::initializer_list<std::function<void(ShareColumnsParams*)>>{
           [](ShareColumnsParams* p) { p->in += 1; }, [](ShareColumnsParams* p) { p->out[1] += 2; },
           [](ShareColumnsParams* p) { p->in_stride = 9; }, [](ShareColumnsParams* p) { p->out_stride = 18; },
           [](ShareColumnsParams* p) { p->columns = 7; }}) {
    ShareColumnsParams other = params;
    change(&other);
    EXPECT_FALSE(ShareCallOf(other, 2).vector);
    EXPECT_EQ(ShareCallOf(other, 2).num_units, static_cast<uint32_t>(2 * other.columns));
  }
  EXPECT_EQ(ShareBlocks(call, 132), 1U);
  call.num_units = 5 * kShareUnits + 1;
  EXPECT_EQ(ShareBlocks(call, 132), 6U);
  call.num_units = 1U << 30;
  EXPECT_EQ(ShareBlocks(call, 132), 132U);
}

TEST(CudaShareCall, RefusesWhatItCannotCount) {
  float memory[8] = {};
  ShareColumnsParams good{};
  good.in = memory;
  good.in_stride = good.out_stride = 4;
  good.num_rows = 2;
  good.num_blocks = 1;
  good.columns = 4;
  EXPECT_TRUE(IsValid(good, 2));
  for (const auto& change : std::initializer_list<std::function<void(ShareColumnsParams*)>>{
           [](ShareColumnsParams* p) { p->rank = 2; }, [](ShareColumnsParams* p) { p->rank = -1; },
           [](ShareColumnsParams* p) { p->num_rows = -1; }, [](ShareColumnsParams* p) { p->num_blocks = 0; },
           [](ShareColumnsParams* p) { p->in = nullptr; }, [](ShareColumnsParams* p) { p->out_stride = 3; },
           [](ShareColumnsParams* p) { p->num_blocks = 2; },
           [](ShareColumnsParams* p) { p->out_stride = p->columns = INT32_MAX; }}) {
    ShareColumnsParams bad = good;
    change(&bad);
    EXPECT_FALSE(IsValid(bad, 2));
  }
  good.num_rows = 0;
  good.in = nullptr;
  EXPECT_TRUE(IsValid(good, 2)) << "a meeting without rows";
}

}  // namespace
}  // namespace dunlin::kernels::cuda
