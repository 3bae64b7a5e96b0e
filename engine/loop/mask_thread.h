// SPDX-License-Identifier: Apache-2.0
// Computes the masks of constrained outputs while the engine thread runs the next step. It sleeps while there are none
// to compute. What does not fit its queue is left for the engine thread, which computes what nobody has begun when it
// samples: so the queue can be bounded, and a late mask thread delays a step by no more than the masks themselves.
// Thread rule: Push on the engine thread; one thread of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "engine/sampling/constrained_output.h"

namespace dunlin::engine {

class MaskThread {
 public:
  // capacity: outputs that are queued at once. Returns when the thread waits for the first: it has its memory then.
  explicit MaskThread(size_t capacity);
  // Finishes the mask being computed, drops the others, joins.
  ~MaskThread();
  MaskThread(const MaskThread&) = delete;
  MaskThread& operator=(const MaskThread&) = delete;

  // Queues outputs in their order and clears the vector. Neither allocates nor waits for a mask.
  void Push(std::vector<std::shared_ptr<ConstrainedOutput>>* outputs);

 private:
  using Queue = std::vector<std::shared_ptr<ConstrainedOutput>>;

  void Run();
  // Takes all that is queued into *queue, which is empty; false when the thread is to end.
  bool Take(Queue* queue);

  const size_t capacity_;
  Mutex mutex_;  // guards the three below, between the engine thread and this one; held while pointers move
  CondVar changed_;
  Queue queue_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dunlin::engine
