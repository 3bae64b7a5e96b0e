// SPDX-License-Identifier: Apache-2.0
#include "engine/loop/mailbox.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/request/tenant_share.h"

namespace dunlin::engine {
namespace {

absl::Status Full(absl::string_view message, absl::string_view key) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat(message, " (", key, ")"));
  status.SetPayload(kConfigKeyPayload, absl::Cord(key));
  return status;
}

// A limit of the queue, in requests or in tokens.
struct QueueLimit {
  const char* what;
  uint64_t queued;
  uint64_t queued_of_tenant;
  uint64_t limit;
  const char* key;
};

absl::Status CheckShare(const QueueLimit& queue, const MailboxLoad& load, uint64_t wanted) {
  if (WithinTenantShare(load.tenant, load.tenant_alone, static_cast<int64_t>(queue.queued_of_tenant),
                        static_cast<int64_t>(wanted), static_cast<int64_t>(queue.queued),
                        static_cast<int64_t>(queue.limit))) {
    return absl::OkStatus();
  }
  return Full(absl::StrCat("queue has ", queue.queued_of_tenant, " ", queue.what, " of the caller; of ", queue.limit,
                           " a caller gets at most ", kDynamicThresholdAlpha, " times as many as are free, and ",
                           queue.limit - queue.queued, " are"),
              queue.key);
}

}  // namespace

absl::Status CheckRoom(const MailboxLimits& limits, const MailboxLoad& load, uint64_t num_tokens) {
  const auto max_requests = static_cast<uint64_t>(limits.max_queued_requests);
  const auto max_tokens = static_cast<uint64_t>(limits.max_queued_tokens);
  if (load.queued_requests >= max_requests) {
    return Full(absl::StrCat("queue has ", load.queued_requests, " requests; limit is ", limits.max_queued_requests),
                "scheduler.max_queued_requests");
  }
  if (load.queued_tokens + num_tokens > max_tokens) {
    return Full(absl::StrCat("queue has ", load.queued_tokens, " prompt tokens and the request ", num_tokens,
                             "; limit is ", limits.max_queued_tokens),
                "scheduler.max_queued_tokens");
  }
  if (load.live >= static_cast<uint64_t>(limits.max_live)) {
    return Full(absl::StrCat("model has ", load.live, " requests; limit is ", limits.max_live,
                             ", those that run and those that wait"),
                "scheduler.max_queued_requests");
  }
  const QueueLimit requests = {"requests", load.queued_requests, load.queued_requests_of_tenant, max_requests,
                               "scheduler.max_queued_requests"};
  if (absl::Status status = CheckShare(requests, load, 1); !status.ok()) return status;
  return CheckShare(
      {"prompt tokens", load.queued_tokens, load.queued_tokens_of_tenant, max_tokens, "scheduler.max_queued_tokens"},
      load, num_tokens);
}

}  // namespace dunlin::engine
