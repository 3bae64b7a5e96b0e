// SPDX-License-Identifier: Apache-2.0
// ShareColumnsParams by the device's code on the host: each rank's launches on threads of their own, a thread for every
// lane, over a model of memory in which other devices see a store once it is released. Nothing synchronises ranks but
// their signals.
#include "kernels/cuda/ranks/share_columns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/kernels/cuda/device/thread_lanes.h"
#include "tests/kernels/cuda/portable_cpu.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr int32_t kLanes = 3;

// What a device could do wrong.
enum class RankFault : uint8_t { kNone, kCountsWithoutRelease, kPublishesWithoutRelease, kAheadByOne };

// The stores of a rank's running launch that no other rank sees yet.
struct UnreleasedStores {
  std::mutex mutex;  // guards what follows
  std::vector<std::function<void()>> of_rank;

  void Add(std::vector<std::function<void()>>* of_block) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto& store : *of_block) of_rank.push_back(std::move(store));
    of_block->clear();
  }
  void Release() {
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& store : of_rank) store();
    of_rank.clear();
  }
};

// System of a block, whose lanes share it.
class RankMemory {
 public:
  RankMemory(UnreleasedStores* rank, RankFault fault) : rank_(rank), fault_(fault) {}

  template <typename T>
  void Store(T* to, const T& value) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    stores_.push_back([to, value] { *to = value; });
  }
  uint32_t CountBlock(uint32_t* counter) const {
    if (fault_ != RankFault::kCountsWithoutRelease) rank_->Add(&stores_);
    return std::atomic_ref(*counter).fetch_add(1);
  }
  void Publish(uint32_t* to, uint32_t value) const {
    if (fault_ != RankFault::kPublishesWithoutRelease) rank_->Release();
    std::atomic_ref(*to).store(value + (fault_ == RankFault::kAheadByOne ? 1 : 0));
  }
  uint32_t Acquire(const uint32_t* from) const {
    std::this_thread::yield();
    return std::atomic_ref(*const_cast<uint32_t*>(from)).load();
  }
  uint32_t Look(const uint32_t* from) const { return Acquire(from); }

 private:
  UnreleasedStores* rank_;
  RankFault fault_;
  mutable std::mutex mutex_;  // guards stores_
  mutable std::vector<std::function<void()>> stores_;
};

void RunShare(const ShareCall& call, uint32_t num_blocks, RankFault fault) {
  UnreleasedStores stores;
  std::vector<std::thread> blocks;
  for (uint32_t block = 0; block < num_blocks; ++block) {
    blocks.emplace_back([&, block] {
      const RankMemory memory(&stores, fault);
      RunLanes(kLanes, [&](const ThreadLanes& lanes) { ShareBlock(lanes, memory, call, block, num_blocks); });
    });
  }
  for (std::thread& block : blocks) block.join();
}

struct Rows {
  int32_t num_ranks;
  int32_t num_rows;
  int32_t columns;         // of all ranks, in a block
  int32_t num_blocks = 1;  // of a row
};

// Ranks that gather rows, in turn into two buffers.
class Team {
 public:
  explicit Team(const Rows& rows, uint32_t first_meeting = 0) : rows_(rows) {
    const auto all = static_cast<size_t>(rows.num_rows) * static_cast<size_t>(width());
    for (int32_t rank = 0; rank < rows.num_ranks; ++rank) {
      auto one = std::make_unique<Rank>();
      one->own.resize(all + 1);
      for (std::vector<float>& buffer : one->gathered) buffer.assign(all + 4, -1.0F);
      one->signals.meetings = first_meeting;
      for (uint32_t& reached : one->signals.reached) reached = first_meeting;
      ranks_.push_back(std::move(one));
    }
  }

  std::atomic<bool> wrong{false};
  RankFault fault = RankFault::kNone;
  uint32_t stop = 0;

  // The rank's columns of the round, and whether all ranks' are there afterwards.
  void Run(int32_t rank, int round, uint32_t num_blocks) {
    Rank& own = *ranks_[static_cast<size_t>(rank)];
    const auto [first, count] = PartOf(rank);
    for (int32_t row = 0; row < rows_.num_rows; ++row) {
      for (int32_t block = 0; block < rows_.num_blocks; ++block) {
        for (int32_t i = 0; i < count; ++i) {
          own.own[static_cast<size_t>((row * rows_.num_blocks + block) * count + i)] =
              Value(round, row, block * rows_.columns + first + i);
        }
      }
    }
    RunShare(CallOf(rank, round), num_blocks, fault);
    if (std::atomic_ref(stop).load() == 0 && own.gathered[round % 2] != Expected(round)) wrong = true;
  }

  // All ranks go through the rounds, each on its own; late: rank that takes its time.
  void RunAll(int num_rounds, uint32_t num_blocks, int32_t late = -1) {
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < rows_.num_ranks; ++rank) {
      threads.emplace_back([=, this] {
        for (int round = 0; round < num_rounds; ++round) {
          if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
          Run(rank, round, num_blocks + static_cast<uint32_t>(rank % 2));  // ranks may differ
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  struct Rank {
    std::vector<float> own;
    std::vector<float> gathered[2];
    RankSignals signals{};
  };
  struct Part {
    int32_t first;
    int32_t count;
  };

  int32_t width() const { return rows_.columns * rows_.num_blocks; }
  // Multiples of four where there are enough, so that some cases are copied four floats at a time.
  Part PartOf(int32_t rank) const {
    const int32_t unit = rows_.columns % 4 == 0 ? 4 : 1;
    const auto begin = [&](int32_t of) { return rows_.columns / unit * of / rows_.num_ranks * unit; };
    return {begin(rank), begin(rank + 1) - begin(rank)};
  }
  float Value(int round, int32_t row, int32_t column) const {
    return static_cast<float>(round * 1000000 + row * width() + column);
  }
  ShareColumnsParams ParamsOf(int32_t rank, int round) {
    const Part part = PartOf(rank);
    ShareColumnsParams params{};
    params.rank = rank;
    params.in = ranks_[static_cast<size_t>(rank)]->own.data();
    params.in_stride = int64_t{part.count} * rows_.num_blocks;
    params.in_block_stride = part.count;
    for (int32_t to = 0; to < rows_.num_ranks; ++to) {
      params.out[to] = ranks_[static_cast<size_t>(to)]->gathered[round % 2].data() + part.first;
    }
    params.out_stride = width();
    params.out_block_stride = rows_.columns;
    params.num_rows = rows_.num_rows;
    params.num_blocks = rows_.num_blocks;
    params.columns = part.count;
    return params;
  }
  ShareCall CallOf(int32_t rank, int round) {
    const ShareColumnsParams params = ParamsOf(rank, round);
    EXPECT_TRUE(IsValid(params, rows_.num_ranks));
    ShareCall call = ShareCallOf(params, rows_.num_ranks);
    for (int32_t to = 0; to < rows_.num_ranks; ++to) call.signals[to] = &ranks_[static_cast<size_t>(to)]->signals;
    call.stop = &stop;
    return call;
  }
  // By the CPU's operation, with which ranks that share their memory gather.
  std::vector<float> Expected(int round) const {
    std::vector<float> rows(static_cast<size_t>(rows_.num_rows) * static_cast<size_t>(width()) + 4, -1.0F);
    for (int32_t rank = 0; rank < rows_.num_ranks; ++rank) {
      const Part part = PartOf(rank);
      std::vector<float> own;
      for (int32_t row = 0; row < rows_.num_rows; ++row) {
        for (int32_t block = 0; block < rows_.num_blocks; ++block) {
          for (int32_t i = 0; i < part.count; ++i) {
            own.push_back(Value(round, row, block * rows_.columns + part.first + i));
          }
        }
      }
      if (own.empty()) continue;
      const CopyColumnsParams params{.in = own.data(),
                                     .in_stride = int64_t{part.count} * rows_.num_blocks,
                                     .in_block_stride = part.count,
                                     .out = rows.data() + part.first,
                                     .out_stride = width(),
                                     .out_block_stride = rows_.columns,
                                     .num_rows = rows_.num_rows,
                                     .num_blocks = rows_.num_blocks,
                                     .columns = part.count};
      EXPECT_EQ(Cpu().ops->copy_columns(Cpu().context, params), KernelStatus::kOk);
    }
    return rows;
  }

  const Rows rows_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST(CudaShareColumns, EveryRankHasAllColumnsWhateverTheShape) {
  const Rows cases[] = {{2, 1, 4096}, {2, 5, 37},    {3, 7, 44},   {4, 1, 3, 1},
                        {8, 3, 256},  {4, 3, 20, 3}, {3, 2, 7, 5}, {2, 0, 16}};
  for (const Rows& rows : cases) {
    SCOPED_TRACE(std::to_string(rows.num_ranks) + " ranks, " + std::to_string(rows.num_rows) + " x " +
                 std::to_string(rows.columns));
    for (const uint32_t num_blocks : {1U, 3U}) {
      Team team(rows);
      team.RunAll(3, num_blocks);
      EXPECT_FALSE(team.wrong);
    }
  }
}

TEST(CudaShareColumns, RepeatedMeetingsNeedNoResetAndNoCommonPace) {
  for (const int32_t late : {-1, 0, 2}) {
    Team team({3, 2, 28});
    team.RunAll(12, 2, late);
    EXPECT_FALSE(team.wrong) << "late rank " << late;
  }
}

TEST(CudaShareColumns, CountsOfMeetingsMayWrap) {
  Team team({2, 2, 12}, UINT32_MAX - 2);
  team.RunAll(6, 2, 1);
  EXPECT_FALSE(team.wrong);
}

// The check above would see what it is for.
TEST(CudaShareColumns, AMissingReleaseAndAWrongCountAreSeen) {
  for (const RankFault fault :
       {RankFault::kCountsWithoutRelease, RankFault::kPublishesWithoutRelease, RankFault::kAheadByOne}) {
    Team team({2, 2, 16});
    team.fault = fault;
    team.RunAll(4, 2, 0);
    EXPECT_TRUE(team.wrong) << "fault " << static_cast<int>(fault);
  }
}

TEST(CudaShareColumns, TheHostEndsAllWaiting) {
  Team team({3, 2, 16});
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
  team.Run(0, 1, 1);  // and from then on nobody waits
  EXPECT_EQ(ended, 2);
}

// Rows by their tokens: each rank has those of some, and keeps its own copy of the rest.
TEST(CudaShareColumns, RowsGoByTheirIds) {
  constexpr int32_t kColumns = 8;
  const std::vector<int32_t> ids = {5, -1, 0, 9, 4, 12, 7};
  std::vector<float> own[2];
  std::vector<float> out[2];
  RankSignals signals[2] = {};
  const uint32_t stop = 0;
  for (int rank = 0; rank < 2; ++rank) {
    own[rank].assign(ids.size() * kColumns, static_cast<float>(rank + 1));
    out[rank].assign(ids.size() * kColumns, 0.0F);
  }
  const auto run = [&](int rank) {
    ShareColumnsParams params{};
    params.rank = rank;
    params.in = own[rank].data();
    params.in_stride = params.out_stride = kColumns;
    params.out[0] = out[0].data();
    params.out[1] = out[1].data();
    params.ids = ids.data();
    params.first_id = rank * 5;  // 0 to 4, 5 to 9
    params.num_ids = 5;
    params.num_rows = static_cast<int32_t>(ids.size());
    params.num_blocks = 1;
    params.columns = kColumns;
    ShareCall call = ShareCallOf(params, 2);
    call.signals[0] = &signals[0];
    call.signals[1] = &signals[1];
    call.stop = &stop;
    RunShare(call, 2, RankFault::kNone);
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
  EXPECT_EQ(out[0], out[1]);
  for (size_t row = 0; row < ids.size(); ++row) {
    const float expected = ids[row] < 0 || ids[row] > 9 ? 0.0F : ids[row] < 5 ? 1.0F : 2.0F;
    EXPECT_EQ(out[0][row * kColumns], expected) << row;
    EXPECT_EQ(out[0][row * kColumns + kColumns - 1], expected) << row;
  }
}

TEST(CudaShareColumns, CallsTakeFourFloatsAtOnceWhereAllIsAligned) {
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

TEST(CudaShareColumns, RefusesWhatItCannotCount) {
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
