#include "engine/encoder/encoder_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::Status EncoderQueue::CheckRoom(uint64_t tokens) const {
  const uint64_t calls = submitted_.load(std::memory_order_relaxed) - ended_calls_.load(std::memory_order_acquire);
  const uint64_t queued = submitted_tokens_ - ended_tokens_.load(std::memory_order_acquire);
  if (calls >= static_cast<uint64_t>(limits_.max_calls)) {
    return absl::ResourceExhaustedError(absl::StrCat("queue has ", calls, " requests; limit is ", limits_.max_calls,
                                                     " (scheduler.max_queued_requests)"));
  }
  if (queued + tokens > static_cast<uint64_t>(limits_.max_tokens)) {
    return absl::ResourceExhaustedError(absl::StrCat("queue has ", queued, " prompt tokens and the request ", tokens,
                                                     "; limit is ", limits_.max_tokens,
                                                     " (scheduler.max_queued_tokens)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<RequestId> EncoderQueue::Submit(std::unique_ptr<EncodeCall> call, std::shared_ptr<EncodeSink> sink) {
  const uint64_t tokens = call->request.tokens.size();
  MutexLock lock(&mutex_);
  if (absl::Status status = CheckDoor(door_); !status.ok()) return status;
  if (absl::Status status = CheckRoom(tokens); !status.ok()) return status;
  const RequestId id = submitted_.fetch_add(1, std::memory_order_relaxed) + 1;
  submitted_tokens_ += tokens;
  LiveCall& live = arrivals_.emplace_back();
  live.id = id;
  live.call = std::move(call);
  live.sink = std::move(sink);
  came_in_.Signal();
  return id;
}

void EncoderQueue::Cancel(RequestId id, FinishReason reason) {
  MutexLock lock(&mutex_);
  endings_.push_back({id, reason});
  came_in_.Signal();
}

void EncoderQueue::Close(Door door) {
  MutexLock lock(&mutex_);
  door_ = std::max(door_, door);
  came_in_.Signal();
}

bool EncoderQueue::HasMail() const {
  return !arrivals_.empty() || !endings_.empty() || door_ == Door::kStopped;
}

void EncoderQueue::Take(bool may_sleep, Mail* mail) {
  mail->arrivals.clear();
  mail->endings.clear();
  MutexLock lock(&mutex_);
  while (may_sleep && !HasMail()) came_in_.Wait(&mutex_);
  mail->arrivals.swap(arrivals_);
  mail->endings.swap(endings_);
  mail->stop = door_ == Door::kStopped;
}

void EncoderQueue::SetEnded(uint64_t calls, uint64_t tokens) {
  ended_tokens_.store(tokens, std::memory_order_release);
  ended_calls_.store(calls, std::memory_order_release);
}

int64_t EncoderQueue::live() const {
  const uint64_t ended = ended_calls_.load(std::memory_order_acquire);
  return static_cast<int64_t>(submitted_.load(std::memory_order_acquire) - ended);
}

}  // namespace dunlin::engine
