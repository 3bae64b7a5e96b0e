// SPDX-License-Identifier: Apache-2.0
#include "server/serving/stall_watch.h"

#include <vector>

namespace dunlin::server {

void StallWatch::Watch(const std::shared_ptr<Call>& call, engine::TimeNs now) {
  absl::MutexLock lock(&mutex_);
  watched_[call.get()] = {call, now + patience_};
}

void StallWatch::Forget(const Call* call) {
  absl::MutexLock lock(&mutex_);
  watched_.erase(call);
}

void StallWatch::Sweep(engine::TimeNs now) {
  std::vector<std::weak_ptr<Call>> due;
  {
    absl::MutexLock lock(&mutex_);
    absl::erase_if(watched_, [&](const auto& entry) {
      if (entry.second.due > now) return false;
      due.push_back(entry.second.call);
      return true;
    });
  }
  for (const std::weak_ptr<Call>& call : due) {
    if (const auto alive = call.lock()) alive->CutOff();
  }
}

}  // namespace dunlin::server
