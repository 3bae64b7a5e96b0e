// The seam between the runner and a protocol.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/load/call.h"
#include "server/load/mix.h"
#include "server/load/prompt.h"

namespace dunlin::server::load {

// What a request asks for besides its prompt; the same for the whole run.
struct RequestOptions {
  std::string model;
  float temperature = 0;
  int64_t timeout_ms = 0;       // deadline of each request; 0: none
  bool allow_fallback = false;  // gRPC
  bool omit_text = false;       // gRPC: token ids alone
  bool chat = false;            // OpenAI: /v1/chat/completions instead of /v1/completions
  int num_channels = 0;         // gRPC connections; 0: one for each 90 requests at once
};

// A request that was sent. Cancel asks for its end, from any thread and at any time: its Call still hears of it.
class ActiveRequest {
 public:
  virtual ~ActiveRequest() = default;
  virtual void Cancel() = 0;
};

class LoadClient {
 public:
  virtual ~LoadClient() = default;

  struct Target {
    int32_t vocab_size = 0;  // 0: not known
  };
  // Connects, and asks what there is to know. Blocks for at most `timeout_ms`. Errors: UNAVAILABLE, NOT_FOUND for an
  // unknown model.
  virtual absl::StatusOr<Target> Connect(int64_t timeout_ms) = 0;

  // Sends one request. Never blocks; call->OnSent has been called when it returns. REQUIRES: the runner's thread, which
  // holds what it gets until the call has ended.
  virtual std::shared_ptr<ActiveRequest> Start(const Prompt& prompt, const MixEntry& profile, uint64_t seed,
                                               std::shared_ptr<Call> call) = 0;
};

}  // namespace dunlin::server::load
