// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_calls/running_calls.h"

#include <utility>
#include <vector>

namespace dunlin::server {
namespace {

size_t CancelEach(const std::vector<std::shared_ptr<Generation>>& generations) {
  for (const std::shared_ptr<Generation>& generation : generations) generation->Cancel();
  return generations.size();
}

}  // namespace

void RunningCalls::Add(const std::string& request_id, const Principal& caller,
                       const std::shared_ptr<Generation>& generation) {
  absl::MutexLock lock(&mutex_);
  calls_.emplace(request_id, Call{caller, generation, generation.get()});
}

void RunningCalls::Remove(const std::string& request_id, const Generation* generation) {
  absl::MutexLock lock(&mutex_);
  const auto [first, last] = calls_.equal_range(request_id);
  for (auto call = first; call != last; ++call) {
    if (call->second.address != generation) continue;
    calls_.erase(call);
    return;
  }
}

size_t RunningCalls::Cancel(const std::string& request_id, const Principal& caller) {
  std::vector<std::shared_ptr<Generation>> found;
  {
    absl::MutexLock lock(&mutex_);
    const auto [first, last] = calls_.equal_range(request_id);
    for (auto call = first; call != last; ++call) {
      if (!call->second.caller.SameCaller(caller)) continue;
      if (auto generation = call->second.generation.lock()) found.push_back(std::move(generation));
    }
  }
  return CancelEach(found);
}

size_t RunningCalls::CancelAll(const Principal& caller) {
  std::vector<std::shared_ptr<Generation>> found;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, call] : calls_) {
      if (!call.caller.SameCaller(caller)) continue;
      if (auto generation = call.generation.lock()) found.push_back(std::move(generation));
    }
  }
  return CancelEach(found);
}

}  // namespace dunlin::server
