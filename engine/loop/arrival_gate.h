// SPDX-License-Identifier: Apache-2.0
// The way of every new request from the mailbox to the scheduler. It also pauses the engine: no step is computed until
// it resumes, and requests that arrive meanwhile are held back here.
// Allocates nothing after construction. Thread rule: ArrivalGate on the engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

class Scheduler;
struct Sequence;

// What becomes of the requests in progress.
enum class PauseMode : uint8_t {
  kAbort,  // they end with kCancelled
  kWait,   // they end by themselves first; new ones are held back already
  kKeep,   // they stop where they are, with their pages, and go on with the same bits
};

class ArrivalGate {
 public:
  // scheduler outlives this object. max_live: of requests.
  ArrivalGate(Scheduler* scheduler, size_t max_live) : scheduler_(scheduler) { held_.reserve(max_live); }

  // No step is planned. With kWait only once the scheduler is empty.
  bool stopped() const;
  bool holds_requests() const { return !held_.empty(); }

  // Passes new requests on to the scheduler, or holds them back.
  void Add(std::span<Sequence* const> arrivals);
  // empty: resumes. Requests that were held back take part in the change.
  void Set(std::optional<PauseMode> mode, TimeNs now);
  // Scheduler::End, also of a request that is held back.
  void End(Sequence* sequence, FinishReason reason, TimeNs now);
  // While stopped, in place of the scheduler's plan: ends what is past its deadline.
  void EndExpired(TimeNs now);
  // Hands what is held back over to the scheduler.
  void Release();

 private:
  Scheduler* scheduler_;
  std::optional<PauseMode> mode_;
  std::vector<Sequence*> held_;  // in order of arrival
};

}  // namespace dunlin::engine
