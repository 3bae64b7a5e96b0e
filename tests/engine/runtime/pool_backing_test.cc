// SPDX-License-Identifier: Apache-2.0
// The thread that backs a pool, over a backing that is slow, that fails, and a system that runs out of memory.
#include "engine/runtime/pool_backing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;

constexpr size_t kPageBytes = size_t{1} << 20;
constexpr int32_t kPagesPerChunk = static_cast<int32_t>(PoolBacking::kChunkBytes / kPageBytes);

// A backing whose chunks are let through one by one, and what the pool says at its end.
class Backing {
 public:
  explicit Backing(int32_t num_pages, size_t backed = 0) {
    KvBackingOptions options;
    options.memory_left = [this] {
      const std::lock_guard lock(mutex_);
      return memory_left_;
    };
    options.on_end = [this](int32_t pages, int32_t of) {
      const std::lock_guard lock(mutex_);
      end_ = {pages, of};
      changed_.notify_all();
    };
    pool_ = std::make_unique<PoolBacking>(options, num_pages, kPageBytes, backed, [this](size_t end) {
      std::unique_lock lock(mutex_);
      ends_.push_back(end);
      changed_.notify_all();
      changed_.wait(lock, [this] { return permits_ > 0; });
      --permits_;
      return end <= fails_beyond_;
    });
  }
  ~Backing() {
    Let(1000);
    pool_.reset();
  }

  void Let(int chunks) {
    const std::lock_guard lock(mutex_);
    permits_ += chunks;
    changed_.notify_all();
  }
  // Until so many chunks have been begun.
  void WaitForChunk(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, count] { return ends_.size() >= count; });
  }
  std::pair<int32_t, int32_t> WaitForEnd() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return end_.has_value(); });
    return *end_;
  }
  void Set(size_t* value, size_t to) {
    const std::lock_guard lock(mutex_);
    *value = to;
  }

  size_t memory_left_ = SIZE_MAX;   // guarded by mutex_, as what follows
  size_t fails_beyond_ = SIZE_MAX;  // byte of the pool
  std::vector<size_t> ends_;
  std::optional<std::pair<int32_t, int32_t>> end_;
  std::unique_ptr<PoolBacking> pool_;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int permits_ = 0;
};

TEST(PoolBackingTest, PublishesPagesAsTheyGetMemory) {
  Backing backing(2 * kPagesPerChunk + 3, 5 * kPageBytes + 1);
  EXPECT_EQ(backing.pool_->state().num_pages, 5) << "whole pages of what is backed before";
  EXPECT_TRUE(backing.pool_->state().grows);
  backing.WaitForChunk(1);
  EXPECT_EQ(backing.pool_->state().num_pages, 5) << "the chunk in progress does not count";
  backing.Let(1);
  backing.WaitForChunk(2);
  EXPECT_EQ(backing.pool_->state().num_pages, 5 + kPagesPerChunk);
  backing.Let(1);
  EXPECT_EQ(backing.WaitForEnd(), std::pair(2 * kPagesPerChunk + 3, 2 * kPagesPerChunk + 3));
  EXPECT_EQ(backing.pool_->state().num_pages, 2 * kPagesPerChunk + 3);
  EXPECT_FALSE(backing.pool_->state().grows);
}

TEST(PoolBackingTest, EndsWithWhatItHasWhereTheBackingFails) {
  Backing backing(4 * kPagesPerChunk);
  backing.Set(&backing.fails_beyond_, PoolBacking::kChunkBytes * 2);
  backing.Let(3);
  EXPECT_EQ(backing.WaitForEnd(), std::pair(2 * kPagesPerChunk, 4 * kPagesPerChunk));
  EXPECT_EQ(backing.pool_->state().num_pages, 2 * kPagesPerChunk);
  EXPECT_FALSE(backing.pool_->state().grows);
}

TEST(PoolBackingTest, TouchesNothingThatTheSystemHasNotLeft) {
  Backing backing(4 * kPagesPerChunk);
  backing.WaitForChunk(1);
  backing.Set(&backing.memory_left_, PoolBacking::kChunkBytes + PoolBacking::kHeadroomBytes - 1);
  backing.Let(1);
  EXPECT_EQ(backing.WaitForEnd(), std::pair(kPagesPerChunk, 4 * kPagesPerChunk));
  EXPECT_THAT(backing.ends_, ElementsAre(PoolBacking::kChunkBytes)) << "the second chunk was not begun";
}

TEST(PoolBackingTest, IsDestroyedAfterTheChunkInProgress) {
  Backing backing(1000 * kPagesPerChunk);
  backing.WaitForChunk(1);
  backing.Let(1);
  backing.WaitForChunk(2);
  backing.Let(1000);
  backing.pool_.reset();
  EXPECT_FALSE(backing.end_.has_value() && backing.end_->first < 1000 * kPagesPerChunk) << "it was not short of memory";
}

}  // namespace
}  // namespace dunlin::engine
