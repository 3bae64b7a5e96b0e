// The one door between the callers' threads and an encoder's engine thread: calls and cancellations go in, how much has
// ended comes back. Bounded by Limits. Its mutex is the engine's only lock.
// Thread rule: any thread, except where a function says engine thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/door.h"
#include "engine/encoder/encode_call.h"
#include "engine/types.h"

namespace dunlin::engine {

// A submitted call inside the engine, and how far it is.
struct LiveCall {
  RequestId id = 0;
  std::unique_ptr<EncodeCall> call;
  std::shared_ptr<EncodeSink> sink;
  size_t next_input = 0;   // the first that no batch has taken
  size_t next_token = 0;   // where its tokens begin
  bool in_batch = false;   // the batch at hand has inputs of it
  bool numerical = false;  // a hidden state was not finite
};

class EncoderQueue {
 public:
  struct Limits {
    int32_t max_calls = 256;       // from Submit until ended
    int64_t max_tokens = 1 << 20;  // of those
  };
  struct Ending {
    RequestId id;
    FinishReason reason;
  };
  // What the engine thread takes out at once. Reused, so that its vectors keep their room.
  struct Mail {
    std::vector<LiveCall> arrivals;
    std::vector<Ending> endings;
    bool stop = false;
  };

  explicit EncoderQueue(const Limits& limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED when a limit is met, UNAVAILABLE when closed; the sink is then never called.
  absl::StatusOr<RequestId> Submit(std::unique_ptr<EncodeCall> call, std::shared_ptr<EncodeSink> sink);
  // Asks for an end; ids that are not live are ignored by the engine.
  void Cancel(RequestId id, FinishReason reason);
  // Later calls of a lesser kind change nothing.
  void Close(Door door);

  // Engine thread: takes what has come in. may_sleep: waits until there is something to take, without a timeout.
  void Take(bool may_sleep, Mail* mail);
  // Engine thread: totals since start of calls that have ended, and of their tokens.
  void SetEnded(uint64_t calls, uint64_t tokens);

  // Calls from Submit until ended.
  int64_t live() const;

 private:
  absl::Status CheckRoom(uint64_t tokens) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasMail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  std::atomic<uint64_t> submitted_{0};    // written under mutex_
  std::atomic<uint64_t> ended_calls_{0};  // written by the engine thread
  std::atomic<uint64_t> ended_tokens_{0};

  // Guards what is below: the hand-over between callers and the engine thread. Held for moves of pointers alone.
  Mutex mutex_;
  CondVar came_in_;  // signalled when there is something for the engine thread to take
  Door door_ ABSL_GUARDED_BY(mutex_) = Door::kOpen;
  uint64_t submitted_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<LiveCall> arrivals_ ABSL_GUARDED_BY(mutex_);
  std::vector<Ending> endings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::engine
