// SPDX-License-Identifier: Apache-2.0
// A model of the memory that ranks share (kernels/cuda/ranks): other devices see a store once it is released. Stores
// and loads of one rank's blocks, on threads of their own, a fiber or a thread for every lane.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/kernels/cuda/device/thread_lanes.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kRankLanes = 3;

// What a device could do wrong.
enum class RankFault : uint8_t { kNone, kCountsWithoutRelease, kPublishesWithoutRelease, kAheadByOne, kOneStage };

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
  template <typename T>
  void StoreHere(T* to, const T& value) const {
    *to = value;
  }
  template <typename T>
  T Load(const T* from) const {
    return *from;
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

// A launch: run(lanes, memory, block) of every lane of num_blocks blocks.
template <typename Run>
void RunRankBlocks(uint32_t num_blocks, RankFault fault, const Run& run) {
  UnreleasedStores stores;
  std::vector<std::thread> blocks;
  for (uint32_t block = 0; block < num_blocks; ++block) {
    blocks.emplace_back([&, block] {
      const RankMemory memory(&stores, fault);
      RunLanes(kRankLanes, [&](const ThreadLanes& lanes) { run(lanes, memory, block); });
    });
  }
  for (std::thread& block : blocks) block.join();
}

}  // namespace dunlin::kernels::cuda
