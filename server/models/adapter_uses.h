// SPDX-License-Identifier: Apache-2.0
// Which LoRA adapters of a model have requests, for a metric that routers read: those that wait for their first token,
// and those that have drawn one. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dunlin::server {

class AdapterUses {
 public:
  // A request's use of an adapter, from its submission on. Empty, or moves; ends with its object. The uses outlive it.
  class Use {
   public:
    Use() = default;
    Use(AdapterUses* uses, std::string adapter) : uses_(uses), adapter_(std::move(adapter)) {
      uses_->Count(adapter_, 1, 0);
    }
    Use(Use&& other) noexcept
        : uses_(std::exchange(other.uses_, nullptr)), adapter_(std::move(other.adapter_)), runs_(other.runs_) {}
    Use& operator=(Use&& other) noexcept {
      std::swap(uses_, other.uses_);
      std::swap(adapter_, other.adapter_);
      std::swap(runs_, other.runs_);
      return *this;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (uses_ != nullptr) uses_->Count(adapter_, runs_ ? 0 : -1, runs_ ? -1 : 0);
    }

    // The request has drawn a token.
    void Run() {
      if (uses_ == nullptr || runs_) return;
      runs_ = true;
      uses_->Count(adapter_, -1, 1);
    }

   private:
    AdapterUses* uses_ = nullptr;
    std::string adapter_;
    bool runs_ = false;
  };

  // By name.
  std::vector<std::string> waiting() const { return Names(&Counts::waiting); }
  std::vector<std::string> running() const { return Names(&Counts::running); }

 private:
  struct Counts {
    int32_t waiting = 0;
    int32_t running = 0;
  };

  void Count(const std::string& adapter, int32_t waiting, int32_t running) {
    absl::MutexLock lock(&mutex_);
    Counts& counts = counts_[adapter];
    counts.waiting += waiting;
    counts.running += running;
    if (counts.waiting == 0 && counts.running == 0) counts_.erase(adapter);
  }
  std::vector<std::string> Names(int32_t Counts::*count) const {
    std::vector<std::string> names;
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, counts] : counts_) {
      if (counts.*count > 0) names.push_back(name);
    }
    return names;
  }

  mutable absl::Mutex mutex_;  // guards counts_
  std::map<std::string, Counts> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
