// SPDX-License-Identifier: Apache-2.0
#include "engine/mailbox.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dunlin::engine {
namespace {

absl::Status Full(absl::string_view message, absl::string_view key) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(message, " (", key, ")"));
  status.SetPayload(kConfigKeyPayload, absl::Cord(key));
  return status;
}

}  // namespace

absl::Status CheckRoom(const MailboxLimits& limits, const MailboxLoad& load, uint64_t num_tokens) {
  if (load.queued_requests >= static_cast<uint64_t>(limits.max_queued_requests)) {
    return Full(absl::StrCat("queue has ", load.queued_requests, " requests; limit is ", limits.max_queued_requests),
                "scheduler.max_queued_requests");
  }
  if (load.queued_tokens + num_tokens > static_cast<uint64_t>(limits.max_queued_tokens)) {
    return Full(absl::StrCat("queue has ", load.queued_tokens, " prompt tokens and the request ", num_tokens,
                             "; limit is ", limits.max_queued_tokens),
                "scheduler.max_queued_tokens");
  }
  if (load.live >= static_cast<uint64_t>(limits.max_live)) {
    return Full(absl::StrCat("model has ", load.live, " requests; limit is ", limits.max_live,
                             ", those that run and those that wait"),
                "scheduler.max_queued_requests");
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
