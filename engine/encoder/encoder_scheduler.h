// SPDX-License-Identifier: Apache-2.0
// Makes batches of an encoder's live calls. The first call's profile is the batch's, and whether it classifies; its
// inputs go in first, then those of later calls with that profile and result, while there is room. A call that was in a
// batch and has inputs left goes to the end of the order, so every call makes progress, however large its neighbours
// are. That is the order within a tenant. The calls of the tenant with the fewest computed tokens come first
// (scheduler/tenants.h); those of tenants that are behind fill a quarter of the batch, because the next call of another
// one waits for the batch in progress.
// Calls with deadlines, by what batches have taken so far: a batch grows only while all calls in it are expected to end
// in time; of those that wait, one that could not end in time in the next batch is ended with kDeadline, before its
// deadline, never scheduled, if another one can, and one that could not even alone in any case. The only call, or the
// first where none can, is tried whatever was learned.
// Pure: time is an argument, the device is elsewhere, nothing is allocated after construction.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/encoder/live_call.h"
#include "engine/encoder/ragged_batch.h"
#include "engine/request/types.h"
#include "engine/scheduler/step_cost.h"
#include "engine/scheduler/tenants.h"

namespace dunlin::engine {

struct EncoderCounters {
  uint64_t ended_calls = 0;
  uint64_t ended_tokens = 0;
  uint64_t computed_tokens = 0;
  int32_t running = 0;  // live calls that have been in a batch
};

class EncoderScheduler {
 public:
  struct Limits {
    int32_t max_calls;                           // live at once
    int32_t max_batch_inputs;                    // >= 1
    int32_t max_batch_tokens;                    // >= the longest input
    Pooling classifier_pooling = Pooling::kCls;  // of calls that classify: what the model's head reads
    ImageSpec image = {};                        // of an encoder of images, whose tokens are patches
  };
  explicit EncoderScheduler(const Limits& limits);

  // Borrows a call until it is in retired(). REQUIRES: fewer than max_calls are live.
  void Add(LiveCall* live);

  // End calls and hand them to their sinks. No-op for a call that has ended. REQUIRES: not between Plan and Commit.
  void End(LiveCall* live, FinishReason reason, TimeNs now);
  void EndExpired(TimeNs now);
  void EndAll(FinishReason reason, TimeNs now);

  // The next batch, empty when nothing is live; valid until the next Plan.
  EncodeBatch* Plan(TimeNs now);
  // After the batch has run: ends the calls that are complete or not finite, and moves the other ones of the batch to
  // the end of the order.
  void Commit(TimeNs now);

  bool empty() const { return calls_.empty(); }
  size_t num_live() const { return calls_.size(); }
  // Calls that have ended; the caller clears the vector. The scheduler no longer refers to them.
  std::vector<LiveCall*>& retired() { return retired_; }
  const EncoderCounters& counters() const { return counters_; }

 private:
  void EndLate(TimeNs now);
  double TimeOf(int64_t num_tokens) const;
  double TimeLeft(const LiveCall& live, TimeNs now) const;
  BatchInput NextInput(LiveCall* live) const;
  // While the batch has at most max_tokens tokens, or has none.
  void TakeInputs(LiveCall* live, int32_t max_tokens, TimeNs now);
  void Finish(LiveCall* live, FinishReason reason, TimeNs now);
  template <typename Reason>
  void EndWhere(TimeNs now, const Reason& reason_of);

  const Limits limits_;
  Tenants tenants_;
  std::vector<LiveCall*> calls_;  // in order
  std::vector<LiveCall*> retired_;
  LinearFit<2> cost_;  // of a batch: tokens, fixed
  TimeNs planned_ = 0;
  double batch_time_left_ = 0.0;  // ns in which the batch being planned has to end
  EncodeBatch batch_;
  std::vector<LiveCall*> owners_;  // of batch_.inputs
  EncoderCounters counters_;
};

}  // namespace dunlin::engine
