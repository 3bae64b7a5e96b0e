// SPDX-License-Identifier: Apache-2.0
#include "server/access/admission.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "engine/tenant_share.h"

namespace dunlin::server {

struct Admission::State {
  explicit State(const AdmissionLimits& admission_limits) : limits(admission_limits) {}

  const AdmissionLimits limits;
  mutable absl::Mutex mutex;  // guards what follows
  bool open ABSL_GUARDED_BY(mutex) = false;
  std::optional<AdmissionRefusal> suspended ABSL_GUARDED_BY(mutex);
  std::optional<AdmissionRefusal> closed ABSL_GUARDED_BY(mutex);
  int32_t requests ABSL_GUARDED_BY(mutex) = 0;
  int64_t queued_bytes ABSL_GUARDED_BY(mutex) = 0;
  int64_t output_bytes ABSL_GUARDED_BY(mutex) = 0;
  absl::flat_hash_map<engine::TenantId, int32_t> requests_of ABSL_GUARDED_BY(mutex);  // each > 0

  std::optional<AdmissionRefusal> Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (closed.has_value()) return closed;
    return open ? suspended : AdmissionRefusal::kLoading;
  }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return requests == 0; }
};

Admission::Ticket::Ticket(std::shared_ptr<State> state, int64_t bytes) : state_(std::move(state)), bytes_(bytes) {}

Admission::Ticket::Ticket(Ticket&& other) noexcept
    : state_(std::move(other.state_)),
      bytes_(std::exchange(other.bytes_, 0)),
      output_bytes_(std::exchange(other.output_bytes_, 0)),
      tenant_(std::exchange(other.tenant_, std::nullopt)),
      quota_(std::move(other.quota_)) {}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  Ticket old(std::move(*this));  // releases its slot
  state_ = std::move(other.state_);
  bytes_ = std::exchange(other.bytes_, 0);
  output_bytes_ = std::exchange(other.output_bytes_, 0);
  tenant_ = std::exchange(other.tenant_, std::nullopt);
  quota_ = std::move(other.quota_);
  return *this;
}

Admission::Ticket::~Ticket() {
  if (state_ == nullptr) return;
  absl::MutexLock lock(&state_->mutex);
  state_->queued_bytes -= bytes_;
  state_->output_bytes -= output_bytes_;
  --state_->requests;
  if (!tenant_.has_value()) return;
  const auto found = state_->requests_of.find(*tenant_);
  if (--found->second == 0) state_->requests_of.erase(found);
}

void Admission::Ticket::ReleaseBytes() {
  if (bytes_ == 0) return;
  absl::MutexLock lock(&state_->mutex);
  state_->queued_bytes -= std::exchange(bytes_, 0);
}

bool Admission::Ticket::TakeTenantShare(engine::TenantId tenant) {
  absl::MutexLock lock(&state_->mutex);
  const auto found = state_->requests_of.find(tenant);
  const int32_t held = found == state_->requests_of.end() ? 0 : found->second;
  const bool alone = state_->requests_of.size() == (held > 0 ? 1U : 0U);
  if (!engine::WithinTenantShare(tenant, alone, held, 1, state_->requests - 1,
                                 state_->limits.max_concurrent_requests)) {
    return false;
  }
  ++state_->requests_of[tenant];
  tenant_ = tenant;
  return true;
}

bool Admission::Ticket::TakeOutputBytes(size_t bytes) {
  absl::MutexLock lock(&state_->mutex);
  const int64_t taken = state_->output_bytes + static_cast<int64_t>(bytes);
  if (taken > state_->limits.max_output_bytes) return false;
  state_->output_bytes = taken;
  output_bytes_ = static_cast<int64_t>(bytes);
  return true;
}

Admission::Admission(const AdmissionLimits& limits) : state_(std::make_shared<State>(limits)) {}

std::variant<Admission::Ticket, AdmissionRefusal> Admission::TryAdmit(size_t message_bytes) {
  const AdmissionLimits& limits = state_->limits;
  const auto bytes = static_cast<int64_t>(message_bytes);
  absl::MutexLock lock(&state_->mutex);
  if (const std::optional<AdmissionRefusal> refusal = state_->Refusal(); refusal.has_value()) return *refusal;
  if (state_->requests >= limits.max_concurrent_requests) return AdmissionRefusal::kTooManyRequests;
  if (state_->queued_bytes + bytes > limits.max_queued_bytes) return AdmissionRefusal::kTooManyQueuedBytes;
  ++state_->requests;
  state_->queued_bytes += bytes;
  return Ticket(state_, bytes);
}

void Admission::Open() {
  absl::MutexLock lock(&state_->mutex);
  state_->open = true;
}

void Admission::Suspend(std::optional<AdmissionRefusal> why) {
  absl::MutexLock lock(&state_->mutex);
  state_->suspended = why;
}

void Admission::Close(AdmissionRefusal why) {
  absl::MutexLock lock(&state_->mutex);
  if (!state_->closed.has_value()) state_->closed = why;
}

std::optional<AdmissionRefusal> Admission::refusal() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->Refusal();
}

bool Admission::WaitUntilIdle(absl::Time deadline) const {
  absl::MutexLock lock(&state_->mutex);
  return state_->mutex.AwaitWithDeadline(absl::Condition(state_.get(), &State::Idle), deadline);
}

AdmissionStats Admission::stats() const {
  absl::MutexLock lock(&state_->mutex);
  return {state_->requests, state_->queued_bytes, state_->output_bytes};
}

}  // namespace dunlin::server
