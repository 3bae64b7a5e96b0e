// SPDX-License-Identifier: Apache-2.0
// What one key may use: requests and tokens a minute, and streams at once. A call begins with TryBegin, reserves the
// tokens that it may use, and is settled with those that it used; less is given back, more is a debt that later calls
// wait for. Time is an argument (MonotonicNs), so nothing here has a clock. Takes one short lock; neither blocks nor
// logs. Thread rule: any thread. Calls may outlive the Quota and the Quotas that they came from.
//
//   std::variant<Quota::Call, QuotaRefusal> begun = quota->TryBegin(now);     // before the prompt is tokenised
//   std::optional<QuotaRefusal> refusal = call.Reserve(prompt + max_tokens, now);
//   call.Settle(prompt + generated, now);                                      // or 0, if nothing was computed
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "engine/base/mutex.h"
#include "engine/request/types.h"

namespace dunlin::server {

// nullopt: unlimited. 0: every call is refused. Negative values count as 0.
struct QuotaLimits {
  std::optional<int64_t> requests_per_minute = std::nullopt;
  std::optional<int64_t> tokens_per_minute = std::nullopt;  // prompt and output
  std::optional<int64_t> concurrent_streams = std::nullopt;
  bool any() const {
    return requests_per_minute.has_value() || tokens_per_minute.has_value() || concurrent_streams.has_value();
  }
};

enum class QuotaKind : uint8_t { kRequests, kTokens, kStreams };

struct QuotaRefusal {
  QuotaKind kind = QuotaKind::kRequests;  // the limit that was reached; of two, the one with the longer wait
  int64_t limit = 0;                      // its value
  // Nanoseconds after which the same call is admitted if the key makes no other; nullopt: nobody knows (kStreams), or
  // never (a limit of 0).
  std::optional<engine::TimeNs> retry_after;
};

// What is left of one limit.
struct QuotaLevel {
  int64_t limit = 0;
  int64_t remaining = 0;     // whole units, >= 0
  engine::TimeNs reset = 0;  // nanoseconds until all of it is there again if nothing more is used; 0 for streams
};
// Those limits that there are.
struct QuotaLevels {
  std::optional<QuotaLevel> requests;
  std::optional<QuotaLevel> tokens;
  std::optional<QuotaLevel> streams;
};

class Quota {
  struct State;

 public:
  // One call. Gives its stream back when destroyed; if it has not been settled, it has used what it reserved.
  // Movable; one thread at a time.
  class Call {
   public:
    Call() = default;
    Call(Call&& other) noexcept;
    Call& operator=(Call&& other) noexcept;
    ~Call();
    // Reserves `tokens` >= 0 in all, instead of what was reserved before. On a refusal nothing has changed. A call may
    // reserve more than a minute's worth when the bucket is full. No-op once settled.
    [[nodiscard]] std::optional<QuotaRefusal> Reserve(int64_t tokens, engine::TimeNs now);
    // The call has used `tokens` >= 0 in all, more or fewer than it reserved. The first call counts.
    void Settle(int64_t tokens, engine::TimeNs now);

   private:
    friend class Quota;
    Call(std::shared_ptr<State> state, int64_t reserved);
    std::shared_ptr<State> state_;
    int64_t reserved_ = 0;
    bool settled_ = false;
  };

  explicit Quota(const QuotaLimits& limits);

  // Takes one request and one stream and reserves `tokens` >= 0, or nothing at all. With 0 tokens it is refused only
  // while there is a debt.
  std::variant<Call, QuotaRefusal> TryBegin(engine::TimeNs now, int64_t tokens = 0);

  // What was used stays used, and calls in progress go on under the new limits.
  void SetLimits(const QuotaLimits& limits, engine::TimeNs now);
  QuotaLevels Levels(engine::TimeNs now) const;

 private:
  std::shared_ptr<State> state_;
};

// The quotas of all keys by name, so that a key that stays in the file keeps what it has used. Any thread.
class Quotas {
 public:
  // The quota of a key, with these limits from now on. It is kept as long as somebody holds it: the next set of keys is
  // made while the last one is still there. Call it when the whole file has been accepted.
  std::shared_ptr<Quota> Of(const std::string& name, const QuotaLimits& limits, engine::TimeNs now);
  size_t size() const;  // entries, also some of keys that are gone: at most as many as there were keys at once

 private:
  mutable engine::Mutex mutex_;  // guards what follows
  absl::flat_hash_map<std::string, std::weak_ptr<Quota>> by_name_ ABSL_GUARDED_BY(mutex_);
  size_t num_kept_ ABSL_GUARDED_BY(mutex_) = 1;  // entries after the last time that expired ones were erased
};

}  // namespace dunlin::server
