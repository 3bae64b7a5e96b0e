// SPDX-License-Identifier: Apache-2.0
// The fake device's stream: enqueued work runs later, in order, when somebody waits for it. Code that relies on a copy
// or an operation without waiting finds that nothing has happened yet.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/api/status.h"

namespace dunlin::kernels {

class FakeStream {
 public:
  using Work = std::function<KernelStatus()>;

  void Add(Work work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (records()) {
      recorded_.push_back(std::move(work));
      return;
    }
    queue_.push_back(std::move(work));
    ++num_added_;
  }
  uint64_t num_added() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return num_added_;
  }
  // Runs the first `count` operations ever added and returns the status of the first that failed.
  KernelStatus DoFirst(uint64_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (records()) spoiled_ = true;
    KernelStatus first_bad = KernelStatus::kOk;
    for (; num_done_ < count && !queue_.empty(); ++num_done_) {
      const KernelStatus status = queue_.front()();
      queue_.pop_front();
      if (first_bad == KernelStatus::kOk) first_bad = status;
    }
    return first_bad;
  }
  KernelStatus DoAll() { return DoFirst(UINT64_MAX); }

  // From Begin to End what the calling thread adds is kept instead. Begin: false while a thread records.
  bool Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (recorder_ != std::thread::id()) return false;
    recorder_ = std::this_thread::get_id();
    spoiled_ = false;
    return true;
  }
  // Null where Spoil was called or the thread waited meanwhile.
  std::unique_ptr<std::vector<Work>> End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    recorder_ = {};
    auto work = std::make_unique<std::vector<Work>>(std::exchange(recorded_, {}));
    return spoiled_ ? nullptr : std::move(work);
  }
  // What the calling thread does next must not be part of a graph.
  void Spoil() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (records()) spoiled_ = true;
  }

 private:
  // REQUIRES: mutex_ is held.
  bool records() const { return recorder_ == std::this_thread::get_id(); }

  std::mutex mutex_;  // guards what follows; held while work runs, which keeps it in order
  std::thread::id recorder_;
  std::vector<Work> recorded_;
  bool spoiled_ = false;
  std::deque<Work> queue_;
  uint64_t num_added_ = 0;
  uint64_t num_done_ = 0;
};

// The pinned host memory: copies from and to it are deferred.
class PinnedRanges {
 public:
  void Add(const void* memory, size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ranges_[reinterpret_cast<uintptr_t>(memory)] = bytes;
  }
  void Remove(const void* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ranges_.erase(reinterpret_cast<uintptr_t>(memory));
  }
  bool Hold(const void* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(memory);
    auto after = ranges_.upper_bound(address);
    return after != ranges_.begin() && address < (--after)->first + after->second;
  }

 private:
  std::mutex mutex_;  // guards ranges_
  std::map<uintptr_t, size_t> ranges_;
};

}  // namespace dunlin::kernels
