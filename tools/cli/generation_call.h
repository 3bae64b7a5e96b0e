// SPDX-License-Identifier: Apache-2.0
// One Generate call that can be stopped from the thread that makes it.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>

#include "dunlin/v1/generation.grpc.pb.h"
#include "tools/cli/completion.h"

namespace dunlin::cli {

struct CallResult {
  Completion completion;  // what came, whatever the status
  grpc::Status status;
  bool stopped = false;  // by `stop`
};

// Blocks until the call has ended. `stop` is asked after every response and at least every 20 ms; once it is true the
// call is cancelled. timeout_ms: deadline; 0: none.
CallResult RunGeneration(v1::GenerationService::Stub* stub, const v1::GenerateRequest& request, int64_t timeout_ms,
                         const std::function<bool()>& stop,
                         const std::function<void(const v1::GenerateResponse&)>& on_response);

}  // namespace dunlin::cli
