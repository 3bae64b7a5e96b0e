#include "server/admission.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/convert/errors.h"

namespace dunlin::server {

struct Admission::State {
  enum class Gate : uint8_t { kNotReady, kOpen, kClosed };

  explicit State(const Limits& l)
      : limits(l),
        not_ready(MakeError(Reason::kNotReady, "the server is not ready yet")),
        draining(MakeError(Reason::kDraining, "the server is draining")),
        too_many_requests(Overloaded(Reason::kTooManyRequests,
                                     absl::StrCat(l.max_concurrent_requests, " requests are in flight; limit is ",
                                                  l.max_concurrent_requests, " (limits.max_concurrent_requests)"),
                                     "limits.max_concurrent_requests", l.retry_after_ms)),
        too_many_bytes(
            Overloaded(Reason::kTooManyQueuedBytes,
                       absl::StrCat("no room for the message among those that wait to be tokenised; limit is ",
                                    l.max_queued_bytes, " bytes (limits.max_queued_bytes)"),
                       "limits.max_queued_bytes", l.retry_after_ms)) {}
  const Limits limits;
  // Made once: a server that is flooded has better things to do than to make them.
  const absl::Status not_ready;
  const absl::Status draining;
  const absl::Status too_many_requests;
  const absl::Status too_many_bytes;
  mutable absl::Mutex mutex;
  Gate gate ABSL_GUARDED_BY(mutex) = Gate::kNotReady;
  int32_t requests ABSL_GUARDED_BY(mutex) = 0;
  int64_t queued_bytes ABSL_GUARDED_BY(mutex) = 0;

  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return requests == 0; }
};

Admission::Ticket::Ticket(std::shared_ptr<State> state, int64_t bytes) : state_(std::move(state)), bytes_(bytes) {}

Admission::Ticket::Ticket(Ticket&& other) noexcept
    : state_(std::move(other.state_)), bytes_(std::exchange(other.bytes_, 0)) {}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  Ticket old(std::move(*this));  // gives its slot back
  state_ = std::move(other.state_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Admission::Ticket::~Ticket() {
  if (state_ == nullptr) return;
  absl::MutexLock lock(&state_->mutex);
  state_->queued_bytes -= bytes_;
  --state_->requests;
}

void Admission::Ticket::ReleaseBytes() {
  if (bytes_ == 0) return;
  absl::MutexLock lock(&state_->mutex);
  state_->queued_bytes -= std::exchange(bytes_, 0);
}

Admission::Admission(const Limits& limits) : state_(std::make_shared<State>(limits)) {}

absl::StatusOr<Admission::Ticket> Admission::Admit(size_t message_bytes) {
  std::variant<Ticket, DoorRefusal> answer = Knock(message_bytes);
  if (auto* ticket = std::get_if<Ticket>(&answer)) return std::move(*ticket);
  return StatusOf(std::get<DoorRefusal>(answer));
}

std::variant<Admission::Ticket, DoorRefusal> Admission::Knock(size_t message_bytes) {
  const Limits& limits = state_->limits;
  const auto bytes = static_cast<int64_t>(message_bytes);
  absl::MutexLock lock(&state_->mutex);
  if (state_->gate == State::Gate::kNotReady) return DoorRefusal::kNotReady;
  if (state_->gate == State::Gate::kClosed) return DoorRefusal::kDraining;
  if (state_->requests >= limits.max_concurrent_requests) return DoorRefusal::kTooManyRequests;
  if (state_->queued_bytes + bytes > limits.max_queued_bytes) return DoorRefusal::kTooManyQueuedBytes;
  ++state_->requests;
  state_->queued_bytes += bytes;
  return Ticket(state_, bytes);
}

const absl::Status& Admission::StatusOf(DoorRefusal refusal) const {
  switch (refusal) {
    case DoorRefusal::kNotReady:
      return state_->not_ready;
    case DoorRefusal::kDraining:
      return state_->draining;
    case DoorRefusal::kTooManyRequests:
      return state_->too_many_requests;
    case DoorRefusal::kTooManyQueuedBytes:
      break;
  }
  return state_->too_many_bytes;
}

void Admission::Open() {
  absl::MutexLock lock(&state_->mutex);
  if (state_->gate == State::Gate::kNotReady) state_->gate = State::Gate::kOpen;
}

void Admission::Close() {
  absl::MutexLock lock(&state_->mutex);
  state_->gate = State::Gate::kClosed;
}

bool Admission::WaitUntilIdle(absl::Time deadline) const {
  absl::MutexLock lock(&state_->mutex);
  return state_->mutex.AwaitWithDeadline(absl::Condition(state_.get(), &State::Idle), deadline);
}

AdmissionStats Admission::stats() const {
  absl::MutexLock lock(&state_->mutex);
  return {state_->requests, state_->queued_bytes};
}

}  // namespace dunlin::server
