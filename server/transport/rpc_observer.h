// SPDX-License-Identifier: Apache-2.0
// What a transport reports of its RPCs, of every method and of methods that it does not have. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/request/types.h"

namespace dunlin::server {

struct RpcEnd {
  absl::StatusCode status = absl::StatusCode::kUnknown;
  engine::TimeNs duration = 0;  // from the call's first metadata to its status
  uint64_t sent_bytes = 0;      // of all messages, without framing
  uint64_t received_bytes = 0;
};

class RpcMethodObserver {
 public:
  virtual ~RpcMethodObserver() = default;
  virtual void OnStarted() = 0;
  // Once for each OnStarted.
  virtual void OnEnded(const RpcEnd& end) = 0;
};

class RpcObserver {
 public:
  virtual ~RpcObserver() = default;
  // name: "dunlin.v1.GenerationService/Generate", or "other" for methods that the transport does not have. The result
  // lives as long as this object. Called for each method when the transport starts.
  virtual RpcMethodObserver* ForMethod(const std::string& name) = 0;
};

}  // namespace dunlin::server
