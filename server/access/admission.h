// SPDX-License-Identifier: Apache-2.0
// Admission control: limits the requests in flight, the message bytes waiting to be tokenised and the buffers for
// outputs, over all models, and refuses everything while the server is loading, stalled or draining. Takes one short
// lock, so it may run on a transport's own threads. Thread rule: any thread. Tickets may outlive the Admission that
// issued them.
//
// Message bytes have shares per payer (engine/request/tenant_share.h), whoever else is there: no payer takes the last
// of them. What messages have beyond their first kSmallMessageBytes takes seven eighths at most, so that small ones
// find room also beside a flood of large ones of their own payer. The only message that there is may take everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/time/time.h"
#include "engine/request/types.h"
#include "server/access/quota.h"

namespace dunlin::server {

struct AdmissionLimits {
  int32_t max_concurrent_requests = 512;          // admitted and not yet finished
  int64_t max_queued_bytes = int64_t{64} << 20;   // of request messages admitted and not yet tokenised
  int64_t max_output_bytes = int64_t{256} << 20;  // of buffers for the outputs of admitted requests
};

struct AdmissionStats {
  int32_t requests = 0;      // outstanding tickets
  int32_t receiving = 0;     // tickets whose message is still coming in
  int64_t queued_bytes = 0;  // of tickets whose bytes are not released yet
  int64_t output_bytes = 0;  // taken by outstanding tickets
};

enum class AdmissionRefusal : uint8_t {
  kLoading,
  kDraining,
  kDeviceFailed,
  kEngineStalled,
  kTextPoolStalled,
  kTransportStalled,
  kTooManyRequests,
  kTooManyQueuedBytes,
  kTooManyQueuedBytesOfCaller  // of its payer
};
inline constexpr size_t kNumAdmissionRefusals = 9;

inline constexpr int64_t kSmallMessageBytes = int64_t{16} << 10;

class Admission {
  struct State;

 public:
  // One admitted request. Releases its slot when destroyed. Movable; one thread at a time.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept;
    Ticket& operator=(Ticket&& other) noexcept;
    ~Ticket();
    // The message has been read: its bytes no longer wait. Idempotent.
    void ReleaseBytes();
    // So many more bytes of the message have come. On a refusal nothing is taken. REQUIRES: of TryReceive, no place
    // yet.
    [[nodiscard]] std::optional<AdmissionRefusal> TakeBytes(size_t bytes);
    // The message is there: takes one of the requests in flight. On a refusal nothing has changed. REQUIRES: as above.
    [[nodiscard]] std::optional<AdmissionRefusal> TakePlace();
    // Takes the memory of the request's outputs, until the ticket is destroyed. False, taking nothing, if that exceeds
    // max_output_bytes. REQUIRES: an admitted request that has taken none.
    [[nodiscard]] bool TakeOutputBytes(size_t bytes);
    // The caller's name is known. False if it has its share of the requests in flight (engine/request/tenant_share.h):
    // the request is to be refused. REQUIRES: an admitted request that has no tenant yet.
    [[nodiscard]] bool TakeTenantShare(engine::TenantId tenant);
    // What the request takes of its caller's quota: kept as long as the ticket. Empty for a caller without one.
    void HoldQuota(Quota::Call call) { quota_ = std::move(call); }
    Quota::Call* quota() { return &quota_; }

   private:
    friend class Admission;
    Ticket(std::shared_ptr<State> state, engine::TenantId payer, int64_t bytes, bool placed);
    std::shared_ptr<State> state_;
    engine::TenantId payer_ = engine::kSharedTenant;
    int64_t bytes_ = 0;
    bool placed_ = false;
    int64_t output_bytes_ = 0;
    std::optional<engine::TenantId> tenant_;
    Quota::Call quota_;
  };

  explicit Admission(const AdmissionLimits& limits);

  // A message that is there. A message larger than the whole byte budget is refused with kTooManyQueuedBytes.
  // payer: whose share its bytes count towards (Principal::payer).
  std::variant<Ticket, AdmissionRefusal> TryAdmit(engine::TenantId payer, size_t message_bytes);
  // A message that comes in piece by piece: holds no place and no bytes until they are taken. announced_bytes: 0 if not
  // known. Refused if it would be now, were it there.
  std::variant<Ticket, AdmissionRefusal> TryReceive(engine::TenantId payer, size_t announced_bytes);

  void Open();  // ends the loading; no effect after Close
  // Refuses everything for this reason until the next call; nullopt: nothing any more. Loading and Close come before
  // it.
  void Suspend(std::optional<AdmissionRefusal> why);
  void Close(AdmissionRefusal why);  // refuses everything for this reason from now on; the first reason stays
  // Why every call is refused at the moment, whatever its size; nullopt: it is not.
  std::optional<AdmissionRefusal> refusal() const;
  // Waits until no ticket is outstanding; false if `deadline` passed first.
  bool WaitUntilIdle(absl::Time deadline) const;
  AdmissionStats stats() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace dunlin::server
