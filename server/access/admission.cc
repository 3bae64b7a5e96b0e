// SPDX-License-Identifier: Apache-2.0
#include "server/access/admission.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "engine/request/tenant_share.h"

namespace dunlin::server {

namespace {

// Of messages: what is counted towards max_queued_bytes, and which part of it is not of their first kSmallMessageBytes.
struct MessageBytes {
  int64_t all = 0;
  int64_t large = 0;

  // What a message takes that grows from `before` to `after` bytes.
  static MessageBytes Growth(int64_t before, int64_t after) {
    const auto large = [](int64_t bytes) { return std::max<int64_t>(bytes - kSmallMessageBytes, 0); };
    return {after - before, large(after) - large(before)};
  }
  MessageBytes& operator+=(const MessageBytes& more) {
    all += more.all;
    large += more.large;
    return *this;
  }
};

// Of the byte budget, for what is not of the first kSmallMessageBytes.
constexpr int64_t LargeLimit(int64_t limit) {
  return limit - limit / 8;
}

}  // namespace

struct Admission::State {
  explicit State(const AdmissionLimits& admission_limits) : limits(admission_limits) {}

  const AdmissionLimits limits;
  mutable absl::Mutex mutex;  // guards what follows
  bool open ABSL_GUARDED_BY(mutex) = false;
  std::optional<AdmissionRefusal> suspended ABSL_GUARDED_BY(mutex);
  std::optional<AdmissionRefusal> closed ABSL_GUARDED_BY(mutex);
  int32_t requests ABSL_GUARDED_BY(mutex) = 0;
  int32_t receiving ABSL_GUARDED_BY(mutex) = 0;
  MessageBytes queued ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<engine::TenantId, MessageBytes> queued_of ABSL_GUARDED_BY(mutex);  // by payer; each all > 0
  int64_t output_bytes ABSL_GUARDED_BY(mutex) = 0;
  absl::flat_hash_map<engine::TenantId, int32_t> requests_of ABSL_GUARDED_BY(mutex);  // each > 0

  std::optional<AdmissionRefusal> Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (closed.has_value()) return closed;
    return open ? suspended : AdmissionRefusal::kLoading;
  }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return requests == 0 && receiving == 0; }

  std::optional<AdmissionRefusal> PlaceRefusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (const std::optional<AdmissionRefusal> refusal = Refusal(); refusal.has_value()) return refusal;
    return requests < limits.max_concurrent_requests ? std::optional<AdmissionRefusal>()
                                                     : AdmissionRefusal::kTooManyRequests;
  }
  // Why a message of the payer that has `before` bytes may not grow to `after`.
  std::optional<AdmissionRefusal> BytesRefusal(engine::TenantId payer, int64_t before, int64_t after) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const MessageBytes more = MessageBytes::Growth(before, after);
    const int64_t limit = limits.max_queued_bytes;
    if (more.all == 0) return std::nullopt;
    if (queued.all + more.all > limit) return AdmissionRefusal::kTooManyQueuedBytes;
    if (queued.all == before) return std::nullopt;  // the only message
    if (more.large > 0 && queued.large + more.large > LargeLimit(limit)) return AdmissionRefusal::kTooManyQueuedBytes;
    const auto found = queued_of.find(payer);
    const MessageBytes held = found == queued_of.end() ? MessageBytes() : found->second;
    const bool within =
        engine::WithinDynamicThreshold(held.all, more.all, queued.all, limit) &&
        (more.large == 0 || engine::WithinDynamicThreshold(held.large, more.large, queued.large, LargeLimit(limit)));
    return within ? std::optional<AdmissionRefusal>() : AdmissionRefusal::kTooManyQueuedBytesOfCaller;
  }
  void Grow(engine::TenantId payer, int64_t before, int64_t after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const MessageBytes more = MessageBytes::Growth(before, after);
    if (more.all == 0) return;
    queued += more;
    const auto own = queued_of.try_emplace(payer).first;
    own->second += more;
    if (own->second.all == 0) queued_of.erase(own);
  }
};

Admission::Ticket::Ticket(std::shared_ptr<State> state, engine::TenantId payer, int64_t bytes, bool placed)
    : state_(std::move(state)), payer_(payer), bytes_(bytes), placed_(placed) {}

Admission::Ticket::Ticket(Ticket&& other) noexcept
    : state_(std::move(other.state_)),
      payer_(other.payer_),
      bytes_(std::exchange(other.bytes_, 0)),
      placed_(std::exchange(other.placed_, false)),
      output_bytes_(std::exchange(other.output_bytes_, 0)),
      tenant_(std::exchange(other.tenant_, std::nullopt)),
      quota_(std::move(other.quota_)) {}

Admission::Ticket& Admission::Ticket::operator=(Ticket&& other) noexcept {
  Ticket old(std::move(*this));  // releases its slot
  state_ = std::move(other.state_);
  payer_ = other.payer_;
  bytes_ = std::exchange(other.bytes_, 0);
  placed_ = std::exchange(other.placed_, false);
  output_bytes_ = std::exchange(other.output_bytes_, 0);
  tenant_ = std::exchange(other.tenant_, std::nullopt);
  quota_ = std::move(other.quota_);
  return *this;
}

Admission::Ticket::~Ticket() {
  if (state_ == nullptr) return;
  absl::MutexLock lock(&state_->mutex);
  state_->Grow(payer_, bytes_, 0);
  state_->output_bytes -= output_bytes_;
  --(placed_ ? state_->requests : state_->receiving);
  if (!tenant_.has_value()) return;
  const auto found = state_->requests_of.find(*tenant_);
  if (--found->second == 0) state_->requests_of.erase(found);
}

void Admission::Ticket::ReleaseBytes() {
  if (bytes_ == 0) return;
  absl::MutexLock lock(&state_->mutex);
  state_->Grow(payer_, std::exchange(bytes_, 0), 0);
}

std::optional<AdmissionRefusal> Admission::Ticket::TakeBytes(size_t bytes) {
  const int64_t after = bytes_ + static_cast<int64_t>(bytes);
  absl::MutexLock lock(&state_->mutex);
  if (const std::optional<AdmissionRefusal> refusal = state_->BytesRefusal(payer_, bytes_, after)) return refusal;
  state_->Grow(payer_, bytes_, after);
  bytes_ = after;
  return std::nullopt;
}

std::optional<AdmissionRefusal> Admission::Ticket::TakePlace() {
  absl::MutexLock lock(&state_->mutex);
  if (const std::optional<AdmissionRefusal> refusal = state_->PlaceRefusal()) return refusal;
  --state_->receiving;
  ++state_->requests;
  placed_ = true;
  return std::nullopt;
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

std::variant<Admission::Ticket, AdmissionRefusal> Admission::TryAdmit(engine::TenantId payer, size_t message_bytes) {
  const auto bytes = static_cast<int64_t>(message_bytes);
  absl::MutexLock lock(&state_->mutex);
  if (const std::optional<AdmissionRefusal> refusal = state_->PlaceRefusal()) return *refusal;
  if (const std::optional<AdmissionRefusal> refusal = state_->BytesRefusal(payer, 0, bytes)) return *refusal;
  ++state_->requests;
  state_->Grow(payer, 0, bytes);
  return Ticket(state_, payer, bytes, true);
}

std::variant<Admission::Ticket, AdmissionRefusal> Admission::TryReceive(engine::TenantId payer,
                                                                        size_t announced_bytes) {
  absl::MutexLock lock(&state_->mutex);
  if (const std::optional<AdmissionRefusal> refusal = state_->PlaceRefusal()) return *refusal;
  const auto announced = static_cast<int64_t>(announced_bytes);
  if (const std::optional<AdmissionRefusal> refusal = state_->BytesRefusal(payer, 0, announced)) return *refusal;
  ++state_->receiving;
  return Ticket(state_, payer, 0, false);
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
  return {state_->requests, state_->receiving, state_->queued.all, state_->output_bytes};
}

}  // namespace dunlin::server
