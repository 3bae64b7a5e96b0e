// SPDX-License-Identifier: Apache-2.0
// The interface between the runner and a protocol.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/client/client_tls.h"
#include "tools/load/call.h"
#include "tools/load/mix.h"
#include "tools/load/prompt.h"

namespace dunlin::tools::load {

// Request parameters other than the prompt; the same for the whole run.
struct RequestOptions {
  std::string model;
  float temperature = 0;
  int64_t timeout_ms = 0;  // deadline of each request; 0: none
  bool allow_fallback = false;
  std::string speculation;  // "": the server's default
  bool chat = false;        // the prompt is the user's message of a chat
  bool omit_text = false;   // gRPC: token ids only
  bool token_ids = false;   // OpenAI: `return_token_ids`
  int num_channels = 0;     // gRPC connections; 0: one per 90 concurrent requests
  ClientTls tls;
  std::string api_key;  // "": none is sent
};

// A request that was sent. Cancel may be called from any thread at any time; the Call still reports the end.
class ActiveRequest {
 public:
  virtual ~ActiveRequest() = default;
  virtual void Cancel() = 0;
};

class LoadClient {
 public:
  virtual ~LoadClient() = default;

  struct Target {
    int32_t vocab_size = 0;  // 0: unknown
  };
  // Connects and reads what the run needs to know of the model. Blocks for at most `timeout_ms`. Errors: UNAVAILABLE,
  // NOT_FOUND for an unknown model.
  virtual absl::StatusOr<Target> Connect(int64_t timeout_ms) = 0;

  // Sends one request. Never blocks; call->OnSent has been called when it returns. REQUIRES: the runner's thread, which
  // holds the result until the call has ended.
  virtual std::shared_ptr<ActiveRequest> Start(const Prompt& prompt, const MixEntry& profile, uint64_t seed,
                                               std::shared_ptr<Call> call) = 0;
};

}  // namespace dunlin::tools::load
