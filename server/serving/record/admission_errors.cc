// SPDX-License-Identifier: Apache-2.0
// Of errors.h, what calls are refused with for want of capacity.
#include "absl/strings/str_cat.h"
#include "engine/request/tenant_share.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {

absl::Status AdmissionRefused(AdmissionRefusal refusal, const Limits& limits) {
  switch (refusal) {
    case AdmissionRefusal::kLoading:
      return MakeError(Reason::kLoading, "the server is loading its models");
    case AdmissionRefusal::kDraining:
      return MakeError(Reason::kDraining, "the server is draining");
    case AdmissionRefusal::kDeviceFailed:
      return MakeError(Reason::kDeviceFailed, "the device failed");
    case AdmissionRefusal::kEngineStalled:
      return MakeError(Reason::kStalled, "the server is stalled: an engine makes no progress");
    case AdmissionRefusal::kTextPoolStalled:
      return MakeError(Reason::kStalled, "the server is stalled: the text threads make no progress");
    case AdmissionRefusal::kTransportStalled:
      return MakeError(Reason::kStalled, "the server is stalled: the threads of a port make no progress");
    case AdmissionRefusal::kTooManyRequests:
      return Overloaded(Reason::kTooManyRequests,
                        absl::StrCat(limits.max_concurrent_requests, " requests are in flight; limit is ",
                                     limits.max_concurrent_requests, " (limits.max_concurrent_requests)"),
                        "limits.max_concurrent_requests", limits.retry_after_ms);
    case AdmissionRefusal::kTooManyQueuedBytesOfCaller:
      return Overloaded(Reason::kTooManyQueuedBytes,
                        absl::StrCat("the caller has its share of the memory for requests waiting to be tokenised, at "
                                     "most ",
                                     engine::kDynamicThresholdAlpha, " times as much as is free of ",
                                     limits.max_queued_bytes, " bytes (limits.max_queued_bytes)"),
                        "limits.max_queued_bytes", limits.retry_after_ms);
    case AdmissionRefusal::kTooManyQueuedBytes:
      break;
  }
  return Overloaded(Reason::kTooManyQueuedBytes,
                    absl::StrCat("the request exceeds the memory for requests waiting to be tokenised; limit is ",
                                 limits.max_queued_bytes, " bytes (limits.max_queued_bytes)"),
                    "limits.max_queued_bytes", limits.retry_after_ms);
}

absl::Status TenantShareRefused(const Limits& limits) {
  return Overloaded(Reason::kTooManyRequests,
                    absl::StrCat("the caller has its share of the requests in flight, at most ",
                                 engine::kDynamicThresholdAlpha, " times as many as are free of ",
                                 limits.max_concurrent_requests, " (limits.max_concurrent_requests)"),
                    "limits.max_concurrent_requests", limits.retry_after_ms);
}

absl::Status OutputBytesRefused(size_t bytes, const Limits& limits) {
  return Overloaded(Reason::kTooManyOutputBytes,
                    absl::StrCat("the buffers for the tokens, log-probabilities and grammar of the request take ",
                                 bytes, " bytes, more than the others leave; limit is ", limits.max_output_bytes,
                                 " bytes for all (limits.max_output_bytes)"),
                    "limits.max_output_bytes", limits.retry_after_ms);
}

absl::Status ParseMemoryRefused(size_t bytes, const Limits& limits) {
  return Overloaded(Reason::kTooManyQueuedBytes,
                    absl::StrCat("the request waited in vain for the memory in which it is parsed, ", bytes,
                                 " bytes; limit is ", limits.max_value_bytes, " bytes for all (memory.request_bytes)"),
                    "memory.request_bytes", limits.retry_after_ms);
}

}  // namespace dunlin::server
