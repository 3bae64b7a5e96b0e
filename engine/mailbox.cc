// SPDX-License-Identifier: Apache-2.0
#include "engine/mailbox.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::Status CheckRoom(const MailboxLimits& limits, const MailboxLoad& load, uint64_t num_tokens) {
  if (load.queued_requests >= static_cast<uint64_t>(limits.max_queued_requests)) {
    return absl::ResourceExhaustedError(absl::StrCat("queue has ", load.queued_requests, " requests; limit is ",
                                                     limits.max_queued_requests, " (scheduler.max_queued_requests)"));
  }
  if (load.queued_tokens + num_tokens > static_cast<uint64_t>(limits.max_queued_tokens)) {
    return absl::ResourceExhaustedError(absl::StrCat("queue has ", load.queued_tokens,
                                                     " prompt tokens and the request ", num_tokens, "; limit is ",
                                                     limits.max_queued_tokens, " (scheduler.max_queued_tokens)"));
  }
  if (load.live >= static_cast<uint64_t>(limits.max_live)) {
    return absl::ResourceExhaustedError(absl::StrCat("model has ", load.live, " requests; limit is ", limits.max_live,
                                                     " (follows scheduler.max_queued_requests)"));
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
