// The one door between the callers' threads and the engine thread: arrivals and endings go in, retired sequences come
// back to be destroyed. Bounded by Limits; owns every live sequence. Its mutex is the engine's only lock.
// Thread rule: any thread, except where a function says engine thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/door.h"
#include "engine/scheduler/sequence.h"
#include "engine/types.h"

namespace dunlin::engine {

class Inbox {
 public:
  struct Limits {
    int32_t max_queued_requests = 256;    // from Submit until first scheduled
    int64_t max_queued_tokens = 1 << 20;  // prompt tokens of those
    int32_t max_live = 320;               // from Submit until retired
  };

  struct Ending {
    Sequence* sequence;
    FinishReason reason;
  };
  // What the engine thread takes out at once. Reused, so that its vectors keep their room.
  struct Mail {
    std::vector<Sequence*> arrivals;
    std::vector<Ending> endings;
    bool stop = false;
  };

  explicit Inbox(const Limits& limits);

  // RESOURCE_EXHAUSTED when a limit is met, UNAVAILABLE when closed; the sequence is destroyed then.
  absl::StatusOr<RequestId> Submit(std::unique_ptr<Sequence> sequence);
  // Asks for an end. No-op when `id` is not live, or when it was asked for before.
  void Cancel(RequestId id, FinishReason reason);

  // No more arrivals; later calls of a lesser kind change nothing. Stop and Fail are final.
  void StartDraining();
  void Stop();
  void Fail();

  // Engine thread: gives back the retired sequences (clears *retired), then takes what has come in. may_sleep: waits
  // until there is something to take, without a timeout, and destroys retired sequences first.
  void Exchange(bool may_sleep, std::vector<Sequence*>* retired, Mail* mail);

  // Engine thread: totals since start of requests that have left the queue, and of their prompt tokens.
  void SetDequeued(uint64_t requests, uint64_t tokens);

  // Totals since start. live() falls when a sequence has given back its pages.
  int64_t live() const { return num_live_.load(std::memory_order_acquire); }
  // Engine thread.
  void SubtractLive(int64_t retired) { num_live_.fetch_sub(retired, std::memory_order_release); }

 private:
  struct Live {
    std::unique_ptr<Sequence> sequence;
    bool end_asked = false;  // so that endings_ holds a sequence once
  };
  struct EndingById {
    RequestId id;
    FinishReason reason;
  };
  using Reclaimed = std::array<std::unique_ptr<Sequence>, 8>;

  absl::Status CheckRoom(const Sequence& sequence) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes some of the retired sequences, to be destroyed without the lock: their sinks may do anything.
  bool TakeReclaimed(Reclaimed* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasMail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close(Door door);

  const Limits limits_;
  std::atomic<int64_t> num_live_{0};
  std::atomic<uint64_t> dequeued_requests_{0};  // written by the engine thread
  std::atomic<uint64_t> dequeued_tokens_{0};

  // Guards everything below: the hand-over between callers and the engine thread. Held for moves of pointers, never
  // while a sequence is made or destroyed or a sink is called.
  Mutex mutex_;
  CondVar came_in_;  // signalled when there is something for the engine thread to take
  Door door_ ABSL_GUARDED_BY(mutex_) = Door::kOpen;
  RequestId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t submitted_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<RequestId, Live> live_ ABSL_GUARDED_BY(mutex_);  // grows only in Submit
  std::vector<Sequence*> arrivals_ ABSL_GUARDED_BY(mutex_);
  std::vector<EndingById> endings_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Sequence>> reclaimed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dunlin::engine
