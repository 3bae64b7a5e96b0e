// SPDX-License-Identifier: Apache-2.0
// Concurrent lanes with a barrier, so that the device's row algorithms are tested as a block runs them: fibers that run
// from one Sync to the next in turns of ascending and of descending order, so that what a missing Sync orders comes out
// wrong in one of the two. With ThreadSanitizer a thread each: it reports a missing Sync as a race.
#pragma once

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cuda/device/host_device.h"
#include "tests/kernels/cuda/device/fiber.h"

namespace dunlin::kernels::cuda {

#ifdef __SANITIZE_THREAD__
class LaneSchedule {
 public:
  explicit LaneSchedule(int32_t lanes) : lanes_(lanes), barrier_(lanes) {}
  void Sync(int32_t /*lane*/) { barrier_.arrive_and_wait(); }
  // body(lane) for each, the first on the caller's thread.
  template <typename Body>
  void Run(const Body& body) {
    std::vector<std::thread> threads;
    for (int32_t i = 1; i < lanes_; ++i) {
      threads.emplace_back([&body, i] { body(i); });
    }
    body(0);
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const int32_t lanes_;
  std::barrier<> barrier_;
};
#else
class LaneSchedule {
 public:
  explicit LaneSchedule(int32_t lanes) : fibers_(static_cast<size_t>(lanes)) {}
  void Sync(int32_t lane) { fibers_[static_cast<size_t>(lane)].Yield(); }
  template <typename Body>
  void Run(const Body& body) {
    constexpr size_t kStackBytes = size_t{256} << 10;
    thread_local std::vector<std::unique_ptr<char[]> > stacks;
    while (stacks.size() < fibers_.size()) stacks.push_back(std::make_unique_for_overwrite<char[]>(kStackBytes));
    for (size_t i = 0; i < fibers_.size(); ++i) {
      fibers_[i].Start([&body, i] { body(static_cast<int32_t>(i)); }, stacks[i].get(), kStackBytes);
    }
    size_t done = 0;
    for (bool ascending = true; done == 0; ascending = !ascending) {
      for (size_t i = 0; i < fibers_.size(); ++i) {
        Fiber& fiber = fibers_[ascending ? i : fibers_.size() - 1 - i];
        fiber.Resume();
        done += fiber.done() ? 1 : 0;
      }
    }
    if (done == fibers_.size()) return;
    (void)std::fprintf(stderr, "%zu of %zu lanes ended before a Sync of the others\n", done, fibers_.size());
    std::abort();
  }

 private:
  std::vector<Fiber> fibers_;
};
#endif

class ThreadLanes {
 public:
  struct Shared {
    explicit Shared(int32_t lanes)
        : count(lanes), schedule(lanes), sums(static_cast<size_t>(lanes)), maxima(sums.size()), totals(sums.size()) {}
    const int32_t count;
    LaneSchedule schedule;
    std::vector<float> sums;
    std::vector<uint64_t> maxima;
    std::vector<double> totals;
  };

  ThreadLanes(Shared* shared, int32_t index) : shared_(shared), index_(index) {}
  int32_t index() const { return index_; }
  int32_t count() const { return shared_->count; }
  float Sum(float value) const {
    shared_->sums[static_cast<size_t>(index_)] = value;
    Sync();
    float sum = 0.0F;
    for (const float part : shared_->sums) sum += part;
    Sync();
    return sum;
  }
  float Largest(float value) const {
    shared_->sums[static_cast<size_t>(index_)] = value;
    Sync();
    float largest = shared_->sums[0];
    for (const float part : shared_->sums) largest = std::fmax(largest, part);
    Sync();
    return largest;
  }
  uint32_t Max(uint32_t value) const { return static_cast<uint32_t>(Max(uint64_t{value})); }
  uint64_t Max(uint64_t value) const {
    shared_->maxima[static_cast<size_t>(index_)] = value;
    Sync();
    uint64_t largest = 0;
    for (const uint64_t part : shared_->maxima) largest = part > largest ? part : largest;
    Sync();
    return largest;
  }
  template <int kCount>
  void Sums(double (*values)[kCount]) const {
    for (double& value : *values) {
      shared_->totals[static_cast<size_t>(index_)] = value;
      Sync();
      value = 0.0;
      for (const double part : shared_->totals) value += part;
      Sync();
    }
  }
  void Sync() const { shared_->schedule.Sync(index_); }
  void BeginPass() const {}
  void Count(uint32_t* at) const { Take(at, 1); }
  uint32_t Take(uint32_t* at, uint32_t value) const { return std::atomic_ref(*at).fetch_add(value); }
  void AddWide(uint32_t* low, uint32_t* high, uint32_t value) const {
    if (Take(low, value) > ~value) Take(high, 1);
  }
  // Each lane is its own part.
  int32_t num_parts() const { return shared_->count; }
  int32_t part_index() const { return index_; }
  SingleLane Part() const { return {}; }

 private:
  Shared* shared_;
  int32_t index_;
};

// Runs body(lanes) on `count` concurrent lanes.
template <typename Body>
void RunLanes(int32_t count, const Body& body) {
  ThreadLanes::Shared shared(count);
  shared.schedule.Run([&](int32_t lane) { body(ThreadLanes(&shared, lane)); });
}

}  // namespace dunlin::kernels::cuda
