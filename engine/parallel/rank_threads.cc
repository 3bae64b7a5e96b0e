// SPDX-License-Identifier: Apache-2.0
#include "engine/parallel/rank_threads.h"

#include "engine/base/thread_name.h"

namespace dunlin::engine {

RankThreads::RankThreads(int32_t num_ranks, const std::function<void(int32_t rank)>& on_start) : spin_(num_ranks) {
  threads_.reserve(static_cast<size_t>(num_ranks - 1));
  try {
    for (int32_t rank = 1; rank < num_ranks; ++rank) {
      threads_.emplace_back([this, rank, on_start, spin = spin_] {
        NameThread("rank", rank);
        if (on_start) on_start(rank);
        Loop(rank, spin);
      });
    }
  } catch (...) {
    Stop();
    throw;
  }
}

RankThreads::~RankThreads() {
  Stop();
}

void RankThreads::Stop() {
  stopping_.store(true, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::Loop(int32_t rank, SpinTime spin) {
  uint32_t seen = 0;
  while (true) {
    WaitWhile(round_, seen, spin);
    if (stopping_.load(std::memory_order_acquire)) return;
    seen = round_.load(std::memory_order_acquire);
    (*body_)(rank);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_all();
  }
}

void RankThreads::Run(absl::FunctionRef<void(int32_t rank)> body) {
  body_ = &body;
  running_.store(static_cast<uint32_t>(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  body(0);
  for (uint32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    WaitWhile(running_, left, spin_);
  }
}

}  // namespace dunlin::engine
