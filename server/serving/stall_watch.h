// SPDX-License-Identifier: Apache-2.0
// Cuts off calls whose clients do not read the end of a stream, which a transport would keep open forever. One sweep
// serves all calls, because a timer per call costs more than everything else at its end. Thread rule: any thread; one
// Sweep at a time.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "engine/types.h"

namespace dunlin::server {

class StallWatch {
 public:
  class Call {
   public:
    virtual ~Call() = default;
    // Called by Sweep, which holds no lock. The call may have ended.
    virtual void CutOff() = 0;
  };

  // patience: how long after Watch a call is cut off, at the next sweep.
  explicit StallWatch(engine::TimeNs patience) : patience_(patience) {}

  // Watches the call until Forget. REQUIRES: Forget is called before the call is destroyed.
  void Watch(const std::shared_ptr<Call>& call, engine::TimeNs now);
  // No-op if the call is not watched.
  void Forget(const Call* call);
  void Sweep(engine::TimeNs now);

 private:
  struct Watched {
    std::weak_ptr<Call> call;
    engine::TimeNs due;
  };

  const engine::TimeNs patience_;
  absl::Mutex mutex_;  // guards watched_, between the transport's threads and the text pool
  absl::flat_hash_map<const Call*, Watched> watched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
