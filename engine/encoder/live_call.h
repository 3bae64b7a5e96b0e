// SPDX-License-Identifier: Apache-2.0
// A submitted call inside the engine, and its progress. Created by Submit on the caller's thread; from then on only the
// engine thread touches it, until it is retired.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/encoder/encode_call.h"
#include "engine/request/tenant_queue_usage.h"
#include "engine/request/types.h"
#include "engine/scheduler/tenants.h"

namespace dunlin::engine {

struct LiveCall {
  RequestId id = 0;
  std::unique_ptr<EncodeCall> call;  // null once the sink has it
  std::shared_ptr<EncodeSink> sink;
  Tenant* tenant = nullptr;                 // the scheduler's, until it has ended
  TenantQueueUsage* queue_usage = nullptr;  // the mailbox's; null without one
  size_t next_input = 0;                    // the first that no batch has taken
  size_t next_token = 0;                    // the first token or patch of next_input, of all of the request
  int64_t num_tokens = 0;                   // of the request, or patches; from EncoderScheduler::Add on
  bool numerical = false;                   // a hidden state was not finite
};

}  // namespace dunlin::engine
