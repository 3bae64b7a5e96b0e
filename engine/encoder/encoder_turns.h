// Whose turn it is: the live calls of an encoder in order, and the batches made of them. The first call's profile is
// the batch's; its inputs go in first, then those of the later calls with that profile, while there is room. A call
// that had its turn and has inputs left goes behind the others: so every call moves on, however large its neighbours
// are. Time is an argument. Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/encoder/encoder_queue.h"
#include "engine/encoder/ragged_batch.h"
#include "engine/types.h"

namespace dunlin::engine {

struct EncoderCounters {
  uint64_t ended_calls = 0;
  uint64_t ended_tokens = 0;
  uint64_t computed_tokens = 0;
  int32_t running = 0;  // calls that have had a turn
};

class EncoderTurns {
 public:
  struct Limits {
    int32_t max_calls;         // live at once
    int32_t max_batch_inputs;  // >= 1
    int32_t max_batch_tokens;  // >= the longest input
  };
  explicit EncoderTurns(const Limits& limits);

  bool empty() const { return calls_.empty(); }
  void Add(LiveCall call) { calls_.push_back(std::move(call)); }

  // Ends calls: their sinks hear of it now. Never between Plan and Commit.
  void End(RequestId id, FinishReason reason, TimeNs now);
  void EndExpired(TimeNs now);
  void EndAll(FinishReason reason, TimeNs now);

  // The next batch, empty when there is none; valid until the next Plan.
  EncodeBatch* Plan(TimeNs now);
  // After the batch has run: ends the calls that are complete, gives the others their new places.
  void Commit(TimeNs now);

  const EncoderCounters& counters() const { return counters_; }

 private:
  void TakeInputs(LiveCall* live, TimeNs now);
  void Finish(LiveCall* live, FinishReason reason, TimeNs now);
  template <typename Reason>
  void EndWhere(TimeNs now, const Reason& reason_of);

  const Limits limits_;
  std::vector<LiveCall> calls_;
  std::vector<LiveCall> waiting_turn_;  // scratch of Commit
  EncodeBatch batch_;
  std::vector<size_t> owners_;  // of batch_.inputs: index in calls_
  EncoderCounters counters_;
};

}  // namespace dunlin::engine
