// SPDX-License-Identifier: Apache-2.0
// The answer of a unary call while its client does not read it: without this, the call would keep its admission ticket
// for as long as the client keeps its connection open. Thread rule: any thread.
// Ownership: the call's, which announces its end; the watch holds a weak reference.
#pragma once

#include <grpc/grpc.h>

#include <memory>

#include "server/grpc_calls/call_cut_off.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/core/stall_watch.h"

namespace dunlin::server {

class UnreadAnswer final : public StallWatch::Call {
 public:
  // Watches the call from now on, just before its Finish. core outlives the result; OnDone is called on it.
  static std::shared_ptr<UnreadAnswer> Watch(ServingCore* core, grpc_call* call) {
    std::shared_ptr<UnreadAnswer> answer(new UnreadAnswer(core, call));
    core->stall_watch()->Watch(answer);
    return answer;
  }

  // gRPC is done with the call.
  void OnDone() {
    core_->stall_watch()->Forget(this);
    call_.OnDone();
  }

 private:
  UnreadAnswer(ServingCore* core, grpc_call* call)
      : core_(core), finished_at_(core->now()), call_(call, core->limits()) {}

  engine::TimeNs unread_since() const override { return finished_at_; }
  void CutOff() override { call_.CutOff(); }

  ServingCore* const core_;
  const engine::TimeNs finished_at_;
  CallCutOff call_;
};

}  // namespace dunlin::server
