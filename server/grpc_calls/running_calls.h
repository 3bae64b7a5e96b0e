// SPDX-License-Identifier: Apache-2.0
// The generations in flight by request id, so that another call can cancel them (Abort). Several may have one id.
// Only ids that clients gave are known here, from when their message was read. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/principal.h"
#include "server/serving/generation/generation.h"

namespace dunlin::server {

class RunningCalls {
 public:
  void Add(const std::string& request_id, const Principal& caller, const std::shared_ptr<Generation>& generation);
  // No effect if it was not added.
  void Remove(const std::string& request_id, const Generation* generation);
  // Cancels the caller's generations with this id (Principal::SameCaller). Returns their number.
  size_t Cancel(const std::string& request_id, const Principal& caller);
  // Cancels all of the caller's generations. Returns their number.
  size_t CancelAll(const Principal& caller);

 private:
  struct Call {
    Principal caller;
    std::weak_ptr<Generation> generation;
    const Generation* address;
  };

  absl::Mutex mutex_;  // guards calls_; never held while a generation is cancelled
  std::multimap<std::string, Call> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
