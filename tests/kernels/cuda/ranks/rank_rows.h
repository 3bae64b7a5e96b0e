// SPDX-License-Identifier: Apache-2.0
// Ranks that gather columns by the device's code on the host (rank_memory.h).
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cuda/ranks/stage_columns.h"
#include "tests/kernels/cuda/portable_cpu.h"
#include "tests/kernels/cuda/ranks/rank_memory.h"

namespace dunlin::kernels::cuda {

enum class RankPath : uint8_t { kPeerMemory, kHostMemory };

struct Rows {
  int32_t num_ranks;
  int32_t num_rows;
  int32_t columns;         // of all ranks, in a block
  int32_t num_blocks = 1;  // of a row
};

// Ranks that gather rows, in turn into two buffers: by each other's memory or by the host's, which holds two rows of a
// rank. Nothing synchronises them but their signals.
class Team {
 public:
  Team(const Rows& rows, RankPath path, uint32_t first_meeting = 0) : rows_(rows), path_(path) {
    const auto all = static_cast<size_t>(rows.num_rows) * static_cast<size_t>(width());
    for (int32_t rank = 0; rank < rows.num_ranks; ++rank) {
      auto one = std::make_unique<Rank>();
      one->own.resize(all + 1);
      for (std::vector<float>& buffer : one->gathered) buffer.assign(all + 4, -1.0F);
      for (std::vector<float>& columns : one->staged) columns.assign(static_cast<size_t>(stage_floats()), -2.0F);
      one->counts.meetings = first_meeting;
      for (uint32_t& reached : one->signals.reached) reached = first_meeting;
      ranks_.push_back(std::move(one));
    }
  }

  std::atomic<bool> wrong{false};
  RankFault fault = RankFault::kNone;
  uint32_t stop = 0;
  int32_t late = -1;  // rank that takes its time before each launch

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
    const ShareColumnsParams params = ParamsOf(rank, round);
    EXPECT_TRUE(IsValid(params, rows_.num_ranks));
    path_ == RankPath::kPeerMemory ? ShareByPeers(params, num_blocks) : ShareByHost(params, num_blocks);
    if (std::atomic_ref(stop).load() == 0 && own.gathered[round % 2] != Expected(round)) wrong = true;
  }

  // All ranks go through the rounds, each on its own.
  void RunAll(int num_rounds, uint32_t num_blocks) {
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < rows_.num_ranks; ++rank) {
      threads.emplace_back([=, this] {
        for (int round = 0; round < num_rounds; ++round) {
          Run(rank, round, num_blocks + static_cast<uint32_t>(rank % 2));  // ranks may differ
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // What the rank has put into the host's memory, and where each rank takes it to.
  StagedNote note(int32_t rank, int turn) const { return ranks_[static_cast<size_t>(rank)]->notes[turn]; }

 private:
  struct Rank {
    std::vector<float> own;
    std::vector<float> gathered[2];
    RankCounts counts{};
    RankSignals signals{};
    StagedNote notes[2] = {};
    std::vector<float> staged[2];
    StagedNote taken[kMaxLinkedRanks] = {};
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
  int64_t stage_floats() const { return 2 * int64_t{width()} + 1; }

  void Link(int32_t rank, ShareCall* call) {
    if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    for (int32_t to = 0; to < rows_.num_ranks; ++to) call->signals[to] = &ranks_[static_cast<size_t>(to)]->signals;
    call->counts = &ranks_[static_cast<size_t>(rank)]->counts;
    call->stop = &stop;
  }
  void ShareByPeers(const ShareColumnsParams& params, uint32_t num_blocks) {
    ShareCall call = ShareCallOf(params, rows_.num_ranks);
    Link(params.rank, &call);
    RunRankBlocks(num_blocks, fault, [&](const ThreadLanes& lanes, const RankMemory& memory, uint32_t block) {
      ShareBlock(lanes, memory, call, block, num_blocks);
    });
  }
  void ShareByHost(const ShareColumnsParams& params, uint32_t num_blocks) {
    EXPECT_TRUE(FitsStage(params, stage_floats()));
    ForEachStage(params, rows_.num_ranks, stage_floats(), [&](StageCall& call, int32_t /*rows*/) {
      Link(params.rank, &call.share);
      for (int32_t rank = 0; rank < rows_.num_ranks; ++rank) {
        Rank& of_rank = *ranks_[static_cast<size_t>(rank)];
        for (int turn = 0; turn < 2; ++turn) {
          const int index = fault == RankFault::kOneStage ? 0 : turn;
          call.stages[rank][turn] = {&of_rank.notes[index], of_rank.staged[index].data()};
        }
      }
      call.taken = ranks_[static_cast<size_t>(params.rank)]->taken;
      RunRankBlocks(num_blocks, fault, [&](const ThreadLanes& lanes, const RankMemory& memory, uint32_t block) {
        StageBlock(lanes, memory, call, block, num_blocks);
      });
    });
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
  const RankPath path_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace dunlin::kernels::cuda
