// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/stall_watch.h"

#include <utility>
#include <vector>

namespace dunlin::server {

void StallWatch::Watch(const std::shared_ptr<Call>& call) {
  absl::MutexLock lock(&mutex_);
  watched_[call.get()] = call;
}

void StallWatch::Forget(const Call* call) {
  absl::MutexLock lock(&mutex_);
  watched_.erase(call);
}

void StallWatch::Sweep(engine::TimeNs now) {
  std::vector<std::shared_ptr<Call>> due;
  std::vector<std::shared_ptr<Call>> others;  // released without the lock: the end of a call may take it
  {
    absl::MutexLock lock(&mutex_);
    others.reserve(watched_.size());
    absl::erase_if(watched_, [&](const auto& entry) {
      std::shared_ptr<Call> call = entry.second.lock();
      if (call == nullptr) return true;
      const engine::TimeNs since = call->unread_since();
      const bool is_due = since != 0 && now - since >= patience_;
      (is_due ? due : others).push_back(std::move(call));
      return is_due;
    });
  }
  for (const std::shared_ptr<Call>& call : due) call->CutOff();
}

}  // namespace dunlin::server
