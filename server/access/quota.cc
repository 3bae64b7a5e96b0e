// SPDX-License-Identifier: Apache-2.0
#include "server/access/quota.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "server/access/token_bucket.h"

namespace dunlin::server {
namespace {

using engine::MutexLock;
using engine::TimeNs;

// A bucket that may be missing: then it is unlimited.
using Bucket = std::optional<TokenBucket>;

void SetRate(std::optional<int64_t> per_minute, TimeNs now, Bucket* bucket) {
  if (!per_minute.has_value()) return bucket->reset();
  const int64_t rate = std::max(int64_t{0}, *per_minute);
  if (bucket->has_value()) return (*bucket)->SetRate(rate, now);
  bucket->emplace(rate);
}

std::optional<QuotaRefusal> RefusalOf(QuotaKind kind, int64_t amount, TimeNs now, Bucket* bucket) {
  if (!bucket->has_value()) return std::nullopt;
  const TimeNs wait = (*bucket)->WaitFor(amount, now);
  if (wait == 0) return std::nullopt;
  QuotaRefusal refusal = {kind, (*bucket)->per_minute(), wait};
  if (wait == TokenBucket::kNever) refusal.retry_after.reset();
  return refusal;
}

// The one after which there is longer to wait; one that never ends comes first.
std::optional<QuotaRefusal> Longer(const std::optional<QuotaRefusal>& a, const std::optional<QuotaRefusal>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() ? a : b;
  const TimeNs wait_a = a->retry_after.value_or(TokenBucket::kNever);
  return wait_a >= b->retry_after.value_or(TokenBucket::kNever) ? a : b;
}

std::optional<QuotaLevel> LevelOf(TimeNs now, Bucket* bucket) {
  if (!bucket->has_value()) return std::nullopt;
  return QuotaLevel{(*bucket)->per_minute(), (*bucket)->Remaining(now), (*bucket)->TimeToFull(now)};
}

}  // namespace

struct Quota::State {
  engine::Mutex mutex;  // guards what follows
  Bucket requests ABSL_GUARDED_BY(mutex);
  Bucket tokens ABSL_GUARDED_BY(mutex);
  std::optional<int64_t> max_streams ABSL_GUARDED_BY(mutex);
  int64_t streams ABSL_GUARDED_BY(mutex) = 0;

  void SetLimits(const QuotaLimits& limits, TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    SetRate(limits.requests_per_minute, now, &requests);
    SetRate(limits.tokens_per_minute, now, &tokens);
    max_streams = limits.concurrent_streams;
    if (max_streams.has_value()) max_streams = std::max(int64_t{0}, *max_streams);
  }
  std::optional<QuotaRefusal> Refusal(int64_t num_tokens, TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (max_streams.has_value() && streams >= *max_streams) {
      return QuotaRefusal{QuotaKind::kStreams, *max_streams, std::nullopt};
    }
    return Longer(RefusalOf(QuotaKind::kRequests, 1, now, &requests),
                  RefusalOf(QuotaKind::kTokens, num_tokens, now, &tokens));
  }
};

Quota::Call::Call(std::shared_ptr<State> state, int64_t reserved) : state_(std::move(state)), reserved_(reserved) {}

Quota::Call::Call(Call&& other) noexcept
    : state_(std::move(other.state_)),
      reserved_(std::exchange(other.reserved_, 0)),
      settled_(std::exchange(other.settled_, false)) {}

Quota::Call& Quota::Call::operator=(Call&& other) noexcept {
  Call old(std::move(*this));  // gives its stream back
  state_ = std::move(other.state_);
  reserved_ = std::exchange(other.reserved_, 0);
  settled_ = std::exchange(other.settled_, false);
  return *this;
}

Quota::Call::~Call() {
  if (state_ == nullptr) return;
  MutexLock lock(&state_->mutex);
  --state_->streams;
}

std::optional<QuotaRefusal> Quota::Call::Reserve(int64_t tokens, TimeNs now) {
  if (state_ == nullptr || settled_) return std::nullopt;
  MutexLock lock(&state_->mutex);
  if (state_->tokens.has_value()) {
    Bucket bucket = state_->tokens;
    bucket->GiveBack(reserved_);
    if (std::optional<QuotaRefusal> refusal = RefusalOf(QuotaKind::kTokens, tokens, now, &bucket);
        refusal.has_value()) {
      return refusal;
    }
    bucket->Take(tokens, now);
    state_->tokens = bucket;
  }
  reserved_ = tokens;
  return std::nullopt;
}

void Quota::Call::Settle(int64_t tokens, TimeNs now) {
  if (state_ == nullptr || std::exchange(settled_, true)) return;
  MutexLock lock(&state_->mutex);
  if (!state_->tokens.has_value()) return;
  if (tokens > reserved_) state_->tokens->Take(tokens - reserved_, now);
  if (tokens < reserved_) state_->tokens->GiveBack(reserved_ - tokens);
}

Quota::Quota(const QuotaLimits& limits) : state_(std::make_shared<State>()) {
  MutexLock lock(&state_->mutex);
  state_->SetLimits(limits, 0);
}

std::variant<Quota::Call, QuotaRefusal> Quota::TryBegin(TimeNs now, int64_t tokens) {
  MutexLock lock(&state_->mutex);
  if (const std::optional<QuotaRefusal> refusal = state_->Refusal(tokens, now); refusal.has_value()) return *refusal;
  if (state_->requests.has_value()) state_->requests->Take(1, now);
  if (state_->tokens.has_value()) state_->tokens->Take(tokens, now);
  ++state_->streams;
  return Call(state_, tokens);
}

void Quota::SetLimits(const QuotaLimits& limits, TimeNs now) {
  MutexLock lock(&state_->mutex);
  state_->SetLimits(limits, now);
}

QuotaLevels Quota::Levels(TimeNs now) const {
  MutexLock lock(&state_->mutex);
  QuotaLevels levels = {LevelOf(now, &state_->requests), LevelOf(now, &state_->tokens), std::nullopt};
  if (state_->max_streams.has_value()) {
    const int64_t limit = *state_->max_streams;
    levels.streams = QuotaLevel{limit, std::max(int64_t{0}, limit - state_->streams), 0};
  }
  return levels;
}

std::shared_ptr<Quota> Quotas::Of(const std::string& name, const QuotaLimits& limits, TimeNs now) {
  MutexLock lock(&mutex_);
  if (by_name_.size() >= 2 * num_kept_) {
    absl::erase_if(by_name_, [](const auto& entry) { return entry.second.expired(); });
    num_kept_ = std::max(size_t{1}, by_name_.size());
  }
  std::weak_ptr<Quota>& known = by_name_[name];
  std::shared_ptr<Quota> quota = known.lock();
  if (quota != nullptr) {
    quota->SetLimits(limits, now);
  } else {
    quota = std::make_shared<Quota>(limits);
    known = quota;
  }
  return quota;
}

size_t Quotas::size() const {
  MutexLock lock(&mutex_);
  return by_name_.size();
}

}  // namespace dunlin::server
