#include "engine/inbox.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

Inbox::Inbox(const Limits& limits) : limits_(limits) {
  // A sequence is live or reclaimed, and each Submit reclaims before it adds: the engine thread never grows this.
  reclaimed_.reserve(static_cast<size_t>(limits.max_live) + 1);
}

absl::Status Inbox::CheckRoom(const Sequence& sequence) const {
  const uint64_t queued_requests = last_id_ - dequeued_requests_.load(std::memory_order_relaxed);
  const uint64_t queued_tokens = submitted_tokens_ - dequeued_tokens_.load(std::memory_order_relaxed);
  if (queued_requests >= static_cast<uint64_t>(limits_.max_queued_requests)) {
    return absl::ResourceExhaustedError(absl::StrCat("queue has ", queued_requests, " requests; limit is ",
                                                     limits_.max_queued_requests, " (scheduler.max_queued_requests)"));
  }
  if (queued_tokens + static_cast<uint64_t>(sequence.prompt_len) > static_cast<uint64_t>(limits_.max_queued_tokens)) {
    return absl::ResourceExhaustedError(absl::StrCat("queue has ", queued_tokens, " prompt tokens and the request ",
                                                     sequence.prompt_len, "; limit is ", limits_.max_queued_tokens,
                                                     " (scheduler.max_queued_tokens)"));
  }
  if (live_.size() >= static_cast<size_t>(limits_.max_live)) {
    return absl::ResourceExhaustedError(absl::StrCat("model has ", live_.size(), " requests; limit is ",
                                                     limits_.max_live, " (follows scheduler.max_queued_requests)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RequestId> Inbox::Submit(std::unique_ptr<Sequence> sequence) {
  Reclaimed destroyed_after_unlock;
  MutexLock lock(&mutex_);
  if (absl::Status status = CheckDoor(door_); !status.ok()) return status;
  if (absl::Status status = CheckRoom(*sequence); !status.ok()) return status;
  TakeReclaimed(&destroyed_after_unlock);
  const RequestId id = ++last_id_;
  sequence->id = id;
  submitted_tokens_ += static_cast<uint64_t>(sequence->prompt_len);
  arrivals_.push_back(sequence.get());
  live_[id].sequence = std::move(sequence);
  num_live_.fetch_add(1, std::memory_order_relaxed);
  came_in_.Signal();
  return id;
}

void Inbox::Cancel(RequestId id, FinishReason reason) {
  MutexLock lock(&mutex_);
  const auto found = live_.find(id);
  if (found == live_.end() || found->second.end_asked) return;
  found->second.end_asked = true;
  endings_.push_back({id, reason});
  came_in_.Signal();
}

void Inbox::StartDraining() {
  Close(Door::kDraining);
}
void Inbox::Stop() {
  Close(Door::kStopped);
}
void Inbox::Fail() {
  Close(Door::kFailed);
}

void Inbox::Close(Door door) {
  MutexLock lock(&mutex_);
  door_ = std::max(door_, door);
  came_in_.Signal();
}

bool Inbox::TakeReclaimed(Reclaimed* batch) {
  size_t taken = 0;
  while (taken < batch->size() && !reclaimed_.empty()) {
    (*batch)[taken++] = std::move(reclaimed_.back());
    reclaimed_.pop_back();
  }
  return taken > 0;
}

bool Inbox::HasMail() const {
  return !arrivals_.empty() || !endings_.empty() || door_ == Door::kStopped;
}

void Inbox::Exchange(bool may_sleep, std::vector<Sequence*>* retired, Mail* mail) {
  mail->arrivals.clear();
  mail->endings.clear();
  mutex_.Lock();
  for (Sequence* sequence : *retired) {
    const auto found = live_.find(sequence->id);
    reclaimed_.push_back(std::move(found->second.sequence));
    live_.erase(found);
  }
  retired->clear();
  while (may_sleep && !HasMail()) {
    Reclaimed destroyed_unlocked;
    if (!TakeReclaimed(&destroyed_unlocked)) {
      came_in_.Wait(&mutex_);
      continue;
    }
    mutex_.Unlock();
    destroyed_unlocked = {};
    mutex_.Lock();
  }
  mail->arrivals.swap(arrivals_);
  for (const EndingById& ending : endings_) {
    const auto found = live_.find(ending.id);
    if (found != live_.end()) mail->endings.push_back({found->second.sequence.get(), ending.reason});
  }
  endings_.clear();
  mail->stop = door_ == Door::kStopped;
  mutex_.Unlock();
}

void Inbox::SetDequeued(uint64_t requests, uint64_t tokens) {
  dequeued_requests_.store(requests, std::memory_order_relaxed);
  dequeued_tokens_.store(tokens, std::memory_order_relaxed);
}

}  // namespace dunlin::engine
