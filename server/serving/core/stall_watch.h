// SPDX-License-Identifier: Apache-2.0
// Cuts off calls whose clients do not read, which a transport would keep open forever. One sweep serves all calls,
// because a timer per write costs more than the write. Thread rule: any thread; one Sweep at a time.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "engine/request/types.h"

namespace dunlin::server {

class StallWatch {
 public:
  class Call {
   public:
    virtual ~Call() = default;
    // Since when the client has had something to read that it has not read; 0: nothing. Time in which the call waits
    // for the server is not counted. Must not block: Sweep holds a lock.
    virtual engine::TimeNs unread_since() const = 0;
    // Called by Sweep, which holds no lock. The call may have ended.
    virtual void CutOff() = 0;
  };

  // patience: how long a client may leave something unread; the next sweep after that cuts the call off, once.
  explicit StallWatch(engine::TimeNs patience) : patience_(patience) {}

  // Watches the call until Forget. REQUIRES: Forget is called before the call is destroyed.
  void Watch(const std::shared_ptr<Call>& call);
  // No-op if the call is not watched.
  void Forget(const Call* call);
  void Sweep(engine::TimeNs now);

 private:
  const engine::TimeNs patience_;
  absl::Mutex mutex_;  // guards watched_, between the transport's threads and the text pool
  absl::flat_hash_map<const Call*, std::weak_ptr<Call>> watched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::server
