// SPDX-License-Identifier: Apache-2.0
// The threads of a model's ranks. What they run together, they run at once: rank 0 on the caller's thread, the others
// on threads of their own, which sleep in between. Thread rule: made, used and destroyed by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/parallel/spin_wait.h"

namespace dunlin::engine {

class RankThreads {
 public:
  // Starts num_ranks - 1 threads; each calls on_start(rank) first, where that is given. Throws std::system_error when
  // the system has no thread left.
  explicit RankThreads(int32_t num_ranks, const std::function<void(int32_t rank)>& on_start = nullptr);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  int32_t num_ranks() const { return static_cast<int32_t>(threads_.size()) + 1; }

  // Calls body(rank) for every rank, all at once; returns when all of them have returned. Does not allocate.
  void Run(absl::FunctionRef<void(int32_t rank)> body);

 private:
  void Loop(int32_t rank, SpinTime spin);
  void Stop();

  SpinTime spin_;                                           // of the thread that calls Run
  const absl::FunctionRef<void(int32_t)>* body_ = nullptr;  // of the round; written before round_
  alignas(64) std::atomic<uint32_t> round_{0};              // counts Run and Stop
  alignas(64) std::atomic<uint32_t> running_{0};            // threads that have not returned
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace dunlin::engine
