// SPDX-License-Identifier: Apache-2.0
// Ends a gRPC call whose client does not read, without waiting for it. Thread rule: any thread.
#pragma once

#include <grpc/grpc.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dunlin::server {

class CallCutOff {
 public:
  explicit CallCutOff(grpc_call* call) : call_(call) {}

  // Unlike Finish, this does not queue behind the message that the client does not read. No effect after OnDone.
  void CutOff() {
    grpc_call* call = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (call_ == nullptr) return;
      call = call_;
      grpc_call_ref(call);
    }
    grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, "the client reads too slowly", nullptr);
    grpc_call_unref(call);
  }

  // gRPC is done with the call.
  void OnDone() {
    absl::MutexLock lock(&mutex_);
    call_ = nullptr;
  }

 private:
  absl::Mutex mutex_;                        // guards call_, between CutOff and OnDone
  grpc_call* call_ ABSL_GUARDED_BY(mutex_);  // null after OnDone
};

}  // namespace dunlin::server
