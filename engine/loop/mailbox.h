// SPDX-License-Identifier: Apache-2.0
// The hand-over between callers' threads and an engine thread: submitted work and cancellations go in, retired work
// comes back to be destroyed on a caller's thread. Bounded by MailboxLimits, for each tenant also by its share of the
// queue (tenant_share.h); owns all live work. Its mutex and DeadlineGate's are the only locks of an engine. Work is a
// Sequence or a LiveCall: any type with the members `RequestId id` and `TenantQueueUsage* queue_usage`. Thread rule:
// any thread, except where a function says engine thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/loop/accept_state.h"
#include "engine/loop/arrival_gate.h"
#include "engine/request/tenant_queue_usage.h"
#include "engine/request/types.h"

namespace dunlin::engine {

struct MailboxLimits {
  int32_t max_queued_requests = 256;    // from Submit until counted by SetDequeued
  int64_t max_queued_tokens = 1 << 20;  // of those
  int32_t max_live = 320;               // from Submit until retired
};

// What a mailbox holds, without what a new request adds.
struct MailboxLoad {
  uint64_t queued_requests;
  uint64_t queued_tokens;
  uint64_t live;
  TenantId tenant;    // the new request's
  bool tenant_alone;  // no other one has live work
  uint64_t queued_requests_of_tenant;
  uint64_t queued_tokens_of_tenant;
};

// The payload of a refusal: the config key of the limit.
inline constexpr char kConfigKeyPayload[] = "dunlin/config_key";

// RESOURCE_EXHAUSTED names the first limit that a new request of `num_tokens` tokens would exceed, and its config key.
absl::Status CheckRoom(const MailboxLimits& limits, const MailboxLoad& load, uint64_t num_tokens);

template <typename Work>
class Mailbox {
 public:
  struct Ending {
    Work* work;
    FinishReason reason;
  };
  // What the engine thread takes at once. Reused, so that its vectors keep their capacity.
  struct Mail {
    std::vector<Work*> arrivals;  // in order of Submit
    std::vector<Ending> endings;  // at most one for each live work; may name arrivals
    bool stop = false;
    bool clear_cache = false;                       // ClearCache was called
    bool pause_changed = false;                     // SetPause was called
    std::optional<PauseMode> pause = std::nullopt;  // of pause_changed: the mode
    size_t arrivals_before_pause = 0;  // of pause_changed: so many of the arrivals were submitted before it

    void Reserve(const MailboxLimits& limits) {
      arrivals.reserve(static_cast<size_t>(limits.max_live));
      endings.reserve(static_cast<size_t>(limits.max_live));
    }
  };

  explicit Mailbox(const MailboxLimits& limits) : limits_(limits), usages_(static_cast<size_t>(limits.max_live)) {
    // Work is live or reclaimed, and each Submit reclaims before it adds: the engine thread never grows this.
    reclaimed_.reserve(static_cast<size_t>(limits.max_live) + 1);
  }

  const MailboxLimits& limits() const { return limits_; }

  // Queues work of `num_tokens` tokens and sets its id. RESOURCE_EXHAUSTED when a limit is met, CheckAccepting's
  // status when not accepting; the work is destroyed then.
  absl::StatusOr<RequestId> Submit(std::unique_ptr<Work> work, TenantId tenant, uint64_t num_tokens);
  // What Submit would return now for work of `num_tokens` tokens, before the work is made.
  absl::Status CheckRoomFor(TenantId tenant, uint64_t num_tokens) {
    MutexLock lock(&mutex_);
    return Check(tenant, num_tokens);
  }
  // Requests an end. No-op if `id` is not live, or if its end was requested before.
  void Cancel(RequestId id, FinishReason reason);
  // Accepts nothing any more. A state before the present one changes nothing. kStopped is delivered as Mail::stop.
  void Close(AcceptState state);

  // Requests that the prefix cache be emptied.
  void ClearCache() {
    MutexLock lock(&mutex_);
    clear_cache_ = true;
    mail_available_.Signal();
  }

  // Requests that the engine pause, or, with no mode, that it resume.
  void SetPause(std::optional<PauseMode> mode) {
    MutexLock lock(&mutex_);
    pause_ = mode;
    pause_changed_ = true;
    arrivals_before_pause_ = arrivals_.size();
    mail_available_.Signal();
  }

  // Engine thread: takes back the retired work (clears *retired), then fills *mail with what has come in. may_sleep:
  // waits until there is something to take, or until `wake`, and destroys retired work first.
  void Exchange(bool may_sleep, std::vector<Work*>* retired, Mail* mail, absl::Time wake = absl::InfiniteFuture());
  // Engine thread, when it ends: destroys what was retired, which no later call would.
  void DestroyRetired();

  // Engine thread: totals since start of requests that have left the queue, and of their tokens.
  void SetDequeued(uint64_t requests, uint64_t tokens) {
    dequeued_requests_.store(requests, std::memory_order_relaxed);
    dequeued_tokens_.store(tokens, std::memory_order_relaxed);
  }

  // Work submitted and not retired.
  int64_t live() const { return num_live_.load(std::memory_order_acquire); }

 private:
  struct Live {
    std::unique_ptr<Work> work;
    bool ending = false;  // an end was requested, so that endings_ names it once
  };
  struct EndingById {
    RequestId id;
    FinishReason reason;
  };
  using Reclaimed = std::array<std::unique_ptr<Work>, 8>;

  // Takes some of the retired work, to be destroyed without the lock, because a sink's destructor may do anything.
  bool TakeReclaimed(Reclaimed* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Check(TenantId tenant, uint64_t num_tokens) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Reclaim(std::vector<Work*>* retired) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasMail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !arrivals_.empty() || !endings_.empty() || clear_cache_ || pause_changed_ || state_ == AcceptState::kStopped;
  }

  const MailboxLimits limits_;
  std::atomic<int64_t> num_live_{0};
  std::atomic<uint64_t> dequeued_requests_{0};  // written by the engine thread
  std::atomic<uint64_t> dequeued_tokens_{0};

  // Guards everything below: the hand-over between callers and the engine thread. Held while pointers move, never while
  // work is made or destroyed or a sink is called.
  Mutex mutex_;
  CondVar mail_available_;  // signalled when there is something for the engine thread to take
  AcceptState state_ ABSL_GUARDED_BY(mutex_) = AcceptState::kAccepting;
  bool clear_cache_ ABSL_GUARDED_BY(mutex_) = false;
  bool pause_changed_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<PauseMode> pause_ ABSL_GUARDED_BY(mutex_);
  size_t arrivals_before_pause_ ABSL_GUARDED_BY(mutex_) = 0;
  RequestId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t submitted_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  TenantQueueUsages usages_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<RequestId, Live> live_ ABSL_GUARDED_BY(mutex_);  // grows only in Submit
  std::vector<Work*> arrivals_ ABSL_GUARDED_BY(mutex_);
  std::vector<EndingById> endings_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Work>> reclaimed_ ABSL_GUARDED_BY(mutex_);
};

template <typename Work>
absl::Status Mailbox<Work>::Check(TenantId tenant, uint64_t num_tokens) const {
  if (absl::Status status = CheckAccepting(state_); !status.ok()) return status;
  const TenantQueueUsage* usage = usages_.Find(tenant);
  const MailboxLoad load{.queued_requests = last_id_ - dequeued_requests_.load(std::memory_order_relaxed),
                         .queued_tokens = submitted_tokens_ - dequeued_tokens_.load(std::memory_order_relaxed),
                         .live = live_.size(),
                         .tenant = tenant,
                         .tenant_alone = usages_.size() == (usage == nullptr ? 0U : 1U),
                         .queued_requests_of_tenant = usage == nullptr ? 0 : usage->num_requests(),
                         .queued_tokens_of_tenant = usage == nullptr ? 0 : usage->num_tokens()};
  return CheckRoom(limits_, load, num_tokens);
}

template <typename Work>
absl::StatusOr<RequestId> Mailbox<Work>::Submit(std::unique_ptr<Work> work, TenantId tenant, uint64_t num_tokens) {
  Reclaimed destroyed_after_unlock;
  MutexLock lock(&mutex_);
  if (absl::Status status = Check(tenant, num_tokens); !status.ok()) return status;
  TakeReclaimed(&destroyed_after_unlock);
  const RequestId id = ++last_id_;
  work->id = id;
  work->queue_usage = usages_.Join(tenant, num_tokens);
  submitted_tokens_ += num_tokens;
  arrivals_.push_back(work.get());
  live_[id].work = std::move(work);
  num_live_.fetch_add(1, std::memory_order_relaxed);
  mail_available_.Signal();
  return id;
}

template <typename Work>
void Mailbox<Work>::Cancel(RequestId id, FinishReason reason) {
  MutexLock lock(&mutex_);
  const auto found = live_.find(id);
  if (found == live_.end() || found->second.ending) return;
  found->second.ending = true;
  endings_.push_back({id, reason});
  mail_available_.Signal();
}

template <typename Work>
void Mailbox<Work>::Close(AcceptState state) {
  MutexLock lock(&mutex_);
  state_ = std::max(state_, state);
  mail_available_.Signal();
}

template <typename Work>
bool Mailbox<Work>::TakeReclaimed(Reclaimed* batch) {
  size_t taken = 0;
  while (taken < batch->size() && !reclaimed_.empty()) {
    (*batch)[taken++] = std::move(reclaimed_.back());
    reclaimed_.pop_back();
  }
  return taken > 0;
}

template <typename Work>
void Mailbox<Work>::Reclaim(std::vector<Work*>* retired) {
  for (Work* work : *retired) {
    const auto found = live_.find(work->id);
    usages_.Leave(work->queue_usage);
    reclaimed_.push_back(std::move(found->second.work));
    live_.erase(found);
  }
  retired->clear();
}

template <typename Work>
void Mailbox<Work>::Exchange(bool may_sleep, std::vector<Work*>* retired, Mail* mail, absl::Time wake) {
  mail->arrivals.clear();
  mail->endings.clear();
  num_live_.fetch_sub(static_cast<int64_t>(retired->size()), std::memory_order_release);
  mutex_.Lock();
  Reclaim(retired);
  while (may_sleep && !HasMail()) {
    Reclaimed destroyed_unlocked;
    if (!TakeReclaimed(&destroyed_unlocked)) {
      if (mail_available_.WaitWithDeadline(&mutex_, wake)) break;
      continue;
    }
    mutex_.Unlock();
    destroyed_unlocked = {};
    mutex_.Lock();
  }
  mail->arrivals.swap(arrivals_);
  for (const EndingById& ending : endings_) {
    const auto found = live_.find(ending.id);
    if (found != live_.end()) mail->endings.push_back({found->second.work.get(), ending.reason});
  }
  endings_.clear();
  mail->stop = state_ == AcceptState::kStopped;
  mail->clear_cache = std::exchange(clear_cache_, false);
  mail->pause_changed = std::exchange(pause_changed_, false);
  mail->pause = pause_;
  mail->arrivals_before_pause = arrivals_before_pause_;
  mutex_.Unlock();
}

template <typename Work>
void Mailbox<Work>::DestroyRetired() {
  std::vector<std::unique_ptr<Work>> destroyed_after_unlock;
  MutexLock lock(&mutex_);
  destroyed_after_unlock.swap(reclaimed_);
}

}  // namespace dunlin::engine
