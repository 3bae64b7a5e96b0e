// SPDX-License-Identifier: Apache-2.0
#include "engine/loop/mask_thread.h"

#include <algorithm>
#include <iterator>

#include "engine/base/thread_name.h"

namespace dunlin::engine {

MaskThread::MaskThread(size_t capacity) : capacity_(capacity) {
  queue_.reserve(capacity);
  thread_ = std::thread([this] {
    NameThread("masks");
    Run();
  });
  MutexLock lock(&mutex_);
  while (!started_) changed_.Wait(&mutex_);
}

MaskThread::~MaskThread() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void MaskThread::Push(std::vector<std::shared_ptr<ConstrainedOutput>>* outputs) {
  if (outputs->empty()) return;
  {
    MutexLock lock(&mutex_);
    const size_t count = std::min(outputs->size(), capacity_ - queue_.size());
    queue_.insert(queue_.end(), std::make_move_iterator(outputs->begin()),
                  std::make_move_iterator(outputs->begin() + static_cast<std::ptrdiff_t>(count)));
    changed_.Signal();
  }
  outputs->clear();  // what is left here belongs to a sequence too, so that nothing is freed
}

void MaskThread::Run() {
  Queue queue;
  queue.reserve(capacity_);
  while (Take(&queue)) {
    for (std::shared_ptr<ConstrainedOutput>& output : queue) {
      output->Compute();
      output.reset();
    }
    queue.clear();
  }
}

bool MaskThread::Take(Queue* queue) {
  MutexLock lock(&mutex_);
  if (!started_) changed_.Signal();
  started_ = true;
  while (queue_.empty() && !stop_) changed_.Wait(&mutex_);
  queue_.swap(*queue);
  return !stop_;
}

}  // namespace dunlin::engine
