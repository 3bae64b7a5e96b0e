// Who may come in: bounds on requests in flight and on message bytes waiting to be tokenised, over all models, and the
// gate that is closed before READY and while draining. Cheap enough for gRPC's own threads: one short lock.
// Thread rule: any thread. Tickets may outlive the Admission that gave them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/limits.h"

namespace dunlin::server {

struct AdmissionStats {
  int32_t requests = 0;      // tickets out
  int64_t queued_bytes = 0;  // of tickets whose bytes were not released
};

// Why a call is refused at the door.
enum class DoorRefusal : uint8_t { kNotReady, kDraining, kTooManyRequests, kTooManyQueuedBytes };
inline constexpr size_t kNumDoorRefusals = 4;

class Admission {
  struct State;

 public:
  // One accepted request. Gives its slot back when destroyed. Movable; one thread at a time.
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

  explicit Admission(const Limits& limits);

  // Errors: UNAVAILABLE (NOT_READY before Open, DRAINING after Close); RESOURCE_EXHAUSTED (TOO_MANY_REQUESTS,
  // TOO_MANY_QUEUED_BYTES, with RetryInfo and QuotaFailure). A message larger than the whole byte budget is refused the
  // same way, but cannot arrive: max_message_bytes is smaller.
  absl::StatusOr<Ticket> Admit(size_t message_bytes);
  // The same for who has the statuses already.
  std::variant<Ticket, DoorRefusal> Knock(size_t message_bytes);
  const absl::Status& StatusOf(DoorRefusal refusal) const;

  void Open();   // from NOT_READY; no effect after Close
  void Close();  // refuses from now on, for good
  // Waits until no ticket is out; false when `deadline` came first.
  bool WaitUntilIdle(absl::Time deadline) const;
  AdmissionStats stats() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace dunlin::server
