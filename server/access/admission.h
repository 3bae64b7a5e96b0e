// SPDX-License-Identifier: Apache-2.0
// Admits calls: bounds on requests in flight and on message bytes that wait to be tokenised, over all models, and the
// state that refuses everything before READY and while draining. One short lock, so it may run on a transport's own
// threads. Thread rule: any thread. Tickets may outlive the Admission that gave them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>

#include "absl/time/time.h"

namespace dunlin::server {

struct AdmissionLimits {
  int32_t max_concurrent_requests = 512;         // admitted and not yet finished
  int64_t max_queued_bytes = int64_t{64} << 20;  // of request messages admitted and not yet tokenised
};

struct AdmissionStats {
  int32_t requests = 0;      // tickets out
  int64_t queued_bytes = 0;  // of tickets whose bytes were not released
};

enum class AdmissionRefusal : uint8_t { kNotReady, kDraining, kTooManyRequests, kTooManyQueuedBytes };
inline constexpr size_t kNumAdmissionRefusals = 4;

class Admission {
  struct State;

 public:
  // One admitted request. Gives its slot back when destroyed. Movable; one thread at a time.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();
    // The message has been read: its bytes no longer wait. Idempotent.
    void ReleaseBytes();

   private:
    friend class Admission;
    Ticket(std::shared_ptr<State> state, int64_t bytes);
    std::shared_ptr<State> state_;
    int64_t bytes_ = 0;
  };

  explicit Admission(const AdmissionLimits& limits);

  // Allocates nothing. A message larger than the whole byte budget is refused with kTooManyQueuedBytes.
  std::variant<Ticket, AdmissionRefusal> TryAdmit(size_t message_bytes);

  void Open();   // from not ready; no effect after Close
  void Close();  // refuses from now on, for good
  // Waits until no ticket is out; false when `deadline` came first.
  bool WaitUntilIdle(absl::Time deadline) const;
  AdmissionStats stats() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace dunlin::server
