// SPDX-License-Identifier: Apache-2.0
// The memory that requests can make the server and its text workers hold, beside models and streams: a bound for each
// kind of work, all of which together are one line of the memory plan. Where memory is short every bound is lowered
// between what it needs at least and what the config allows. Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "server/access/limits.h"
#include "server/config/config.h"

namespace dunlin::server {

struct RequestMemory {
  size_t bodies = 0;         // messages admitted and not yet tokenised, and what was parsed from them
  size_t messages = 0;       // that gRPC is reading
  size_t outputs = 0;        // buffers of outputs, states of their grammars
  size_t values = 0;         // JSON while it is parsed
  size_t tokenising = 0;     // texts without a place to cut them
  size_t grammars = 0;       // of all models: kept ones, what states grow by, and their workers
  size_t chats = 0;          // of all models: workers of chat templates
  Limits limits;             // the config's, lowered to these
  TextWorkLimits text_work;  // of each model

  // Without what text workers, processes of their own, may take.
  size_t in_process() const { return bodies + messages + outputs + values + tokenising; }
  size_t total() const { return in_process() + grammars + chats; }
};

// Of a server that may plan with limit_bytes: memory.request_bytes, or with "auto" a fifth of that, but no less than
// all bounds need and no more than they can use. RESOURCE_EXHAUSTED: memory.request_bytes is less than they need.
absl::StatusOr<RequestMemory> PlanRequestMemory(const Config& config, size_t limit_bytes);

// "requests: bodies 134217728, ...: 2013265920 bytes at most".
std::string Describe(const RequestMemory& memory);

}  // namespace dunlin::server
