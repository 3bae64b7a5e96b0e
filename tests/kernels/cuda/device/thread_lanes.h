// SPDX-License-Identifier: Apache-2.0
// Concurrent lanes: one thread each, with a barrier, so that the device's row algorithms are tested as a block runs
// them, and ThreadSanitizer reports a missing Sync as a race.
#pragma once

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

class ThreadLanes {
 public:
  struct Shared {
    explicit Shared(int32_t lanes)
        : count(lanes), barrier(lanes), sums(static_cast<size_t>(lanes)), maxima(sums.size()), totals(sums.size()) {}
    const int32_t count;
    std::barrier<> barrier;
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
  void Sync() const { shared_->barrier.arrive_and_wait(); }
  void BeginPass() const {}
  void Count(uint32_t* at) const { Take(at, 1); }
  uint32_t Take(uint32_t* at, uint32_t value) const { return std::atomic_ref(*at).fetch_add(value); }
  void AddWide(uint32_t* low, uint32_t* high, uint32_t value) const {
    if (Take(low, value) > ~value) Take(high, 1);
  }
  // Each thread is its own part.
  int32_t num_parts() const { return shared_->count; }
  int32_t part_index() const { return index_; }
  SingleLane Part() const { return {}; }

 private:
  Shared* shared_;
  int32_t index_;
};

// Runs body(lanes) on `count` concurrent lanes, the first of them on the caller's thread.
template <typename Body>
void RunLanes(int32_t count, const Body& body) {
  ThreadLanes::Shared shared(count);
  std::vector<std::thread> threads;
  for (int32_t i = 1; i < count; ++i) {
    threads.emplace_back([&shared, &body, i] { body(ThreadLanes(&shared, i)); });
  }
  body(ThreadLanes(&shared, 0));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dunlin::kernels::cuda
