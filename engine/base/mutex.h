// SPDX-License-Identifier: Apache-2.0
// absl::Mutex, annotated for ThreadSanitizer. Debian's absl is not built with it, so without the annotations every
// hand-over through a mutex would be reported as a race; in other builds they are empty.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace dunlin::engine {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.Lock();
    Acquired();
  }
  // False if it is held. Never waits.
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    if (!mutex_.TryLock()) return false;
    Acquired();
    return true;
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    Releasing();
    mutex_.Unlock();
  }

 private:
  friend class CondVar;

#ifdef __SANITIZE_THREAD__
  void Acquired() {
    __tsan_acquire(this);
  }
  void Releasing() {
    __tsan_release(this);
  }
#else
  void Acquired() {}
  void Releasing() {}
#endif

  absl::Mutex mutex_;
};

// Holds a Mutex for its own lifetime.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

class CondVar {
 public:
  // Releases `mutex` while it waits. May wake spuriously. REQUIRES: the caller holds it.
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    mutex->Releasing();
    condition_.Wait(&mutex->mutex_);
    mutex->Acquired();
  }
  // The same until `deadline` at the latest; true if that has passed.
  bool WaitWithDeadline(Mutex* mutex, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    mutex->Releasing();
    const bool passed = condition_.WaitWithDeadline(&mutex->mutex_, deadline);
    mutex->Acquired();
    return passed;
  }
  void Signal() { condition_.Signal(); }
  void SignalAll() { condition_.SignalAll(); }

 private:
  absl::CondVar condition_;
};

}  // namespace dunlin::engine
