// SPDX-License-Identifier: Apache-2.0
// Ends a gRPC call whose client does not read, without waiting for it. Thread rule: any thread.
#pragma once

#include <grpc/grpc.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/access/limits.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {

class CallCutOff {
 public:
  // limits outlive the call.
  CallCutOff(grpc_call* call, const Limits& limits) : limits_(limits), call_(call) {}

  // Unlike Finish, this does not queue behind the message that the client does not read. No effect after OnDone.
  void CutOff() {
    grpc_call* call = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (call_ == nullptr) return;
      call = call_;
      grpc_call_ref(call);
    }
    // gRPC copies the text. The status has no room for details.
    const std::string message(StatusOf(engine::FinishReason::kSlowReader, limits_).message());
    grpc_call_cancel_with_status(call, GRPC_STATUS_RESOURCE_EXHAUSTED, message.c_str(), nullptr);
    grpc_call_unref(call);
  }

  // gRPC is done with the call.
  void OnDone() {
    absl::MutexLock lock(&mutex_);
    call_ = nullptr;
  }

 private:
  const Limits& limits_;
  absl::Mutex mutex_;                        // guards call_, between CutOff and OnDone
  grpc_call* call_ ABSL_GUARDED_BY(mutex_);  // null after OnDone
};

}  // namespace dunlin::server
