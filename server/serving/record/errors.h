// SPDX-License-Identifier: Apache-2.0
// The error catalogue of the serving core: every refusal and failure that a client can see is created here, as an
// absl::Status with details that any front end can render (ErrorDetails). Messages give the field, its value and the
// limit; they never quote prompts, paths or addresses. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/loop/deadline_gate.h"
#include "engine/request/types.h"
#include "server/access/access_control.h"
#include "server/access/admission.h"
#include "server/access/limits.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {

enum class Reason : uint8_t {
  kInvalidField,
  kMalformedMessage,
  kUnauthenticated,
  kPermissionDenied,
  kRequestQuota,
  kTokenQuota,
  kConcurrencyQuota,
  kUnknownModel,
  kModelNotServed,
  kLoadFailed,
  kModelMemory,
  kUnknownService,
  kUnknownAdapter,
  kAdapterExists,
  kNoTokenizer,
  kWrongModelKind,
  kChatUnsupported,
  kChatRefused,  // by the template
  kGrammarInvalid,
  kGrammarUnsupported,
  kGrammarTooComplex,
  kProfileUnsupported,
  kTooManyRequests,
  kTooManyQueuedBytes,
  kTooManyOutputBytes,
  kQueueFull,
  kWouldMissDeadline,
  kLoading,
  kDraining,
  kShutdown,
  kDeadline,
  kCancelled,
  kSlowReader,
  kDeliveryBehind,
  kNumerical,
  kPoolTooSmall,
  kDeviceFailed,
  kStalled,
  kNotImplemented,
  kInternal,
};

// One row per reason, indexed by enumerator: its name in responses and metrics, and its status code.
struct ReasonTraits {
  Reason reason;
  const char* name;
  absl::StatusCode code;
  bool quotes_client = false;  // the message may quote the request: it is not logged
};
const ReasonTraits& Traits(Reason reason);

// The details of a status besides its code and message. Fields that do not apply are empty.
struct ErrorDetails {
  std::string reason;                 // Traits(reason).name; "" for a status created elsewhere
  std::string field;                  // the field at fault, as the front end names it
  std::string limit;                  // of that field
  std::string model;                  // the unknown model; truncated and escaped
  std::vector<std::string> refusals;  // every reason why the execution profile is not supported
  std::string config_key;             // of the limit that was reached
  std::optional<int32_t> retry_after_ms;
};
ErrorDetails DetailsOf(const absl::Status& status);
// DetailsOf(status).reason and .retry_after_ms.
std::string ReasonName(const absl::Status& status);
// Traits(reason).quotes_client of the status's reason.
bool QuotesClient(const absl::Status& status);
std::optional<int32_t> RetryAfterMs(const absl::Status& status);

// A status whose only detail is its reason.
absl::Status MakeError(Reason reason, std::string_view message);
// INVALID_ARGUMENT "<field> <problem>; limit is <limit>".
absl::Status InvalidField(const engine::Violation& violation, const FieldNames& names);
// Of a GrammarCompiler's error: INVALID_ARGUMENT, or FAILED_PRECONDITION for a tokenizer that cannot be constrained.
absl::Status GrammarRefused(const absl::Status& status, engine::Field field, const FieldNames& names);
// Of an error of text/, whose message goes on after the field's name: "takes more than 5; limit is 5".
// INVALID_ARGUMENT; a fault of ours stays one.
absl::Status RefusedByText(const absl::Status& status, engine::Field field, engine::FieldIndex index,
                           const FieldNames& names);
// As InvalidField above, for a field that only one front end has.
absl::Status InvalidField(std::string_view field, std::string_view problem, std::string_view limit);
// The problem of a text that stands where one of a few names belongs: `is "nf4"`. Only a name of up to 32 letters,
// digits, '_', '-' and '.' is quoted: anything else may be a part of a prompt, and is "is another <noun>".
std::string UnknownName(std::string_view text, std::string_view noun);
// NOT_FOUND. The name is truncated and escaped.
absl::Status UnknownModel(std::string_view name);
// UNAVAILABLE: a model that the server knows takes no requests. state: what it is instead, as in "is loading".
absl::Status ModelNotServed(std::string_view name, std::string_view state, int32_t retry_after_ms);
// FAILED_PRECONDITION with every reason why the profile is not supported.
absl::Status ProfileRefused(std::string_view message, const std::vector<std::string>& refusals);
// UNAUTHENTICATED, the same whatever is wrong with the key; or PERMISSION_DENIED, which names what the endpoint needs.
absl::Status AccessRefused(AccessRefusal refusal, const Principal& caller, const Endpoint& endpoint);
// PERMISSION_DENIED: "<field> is <value>; the key allows <allowed>".
absl::Status KeyForbids(engine::Field field, std::string_view value, std::string_view allowed, const FieldNames& names);
// RESOURCE_EXHAUSTED: a limit of the caller's key was reached. stream_retry_ms: when to try again where nobody knows.
absl::Status QuotaRefused(const Principal& caller, const QuotaRefusal& refusal, int32_t stream_retry_ms);
// RESOURCE_EXHAUSTED: a limit of the server was reached; the client may retry after `retry_after_ms`.
absl::Status Overloaded(Reason reason, std::string_view message, std::string_view config_key, int32_t retry_after_ms);
// UNAVAILABLE or RESOURCE_EXHAUSTED.
absl::Status AdmissionRefused(AdmissionRefusal refusal, const Limits& limits);
// RESOURCE_EXHAUSTED: the caller has its share of the requests in flight.
absl::Status TenantShareRefused(const Limits& limits);
// RESOURCE_EXHAUSTED: the buffers of a request's outputs, of so many bytes, exceed what the others leave.
absl::Status OutputBytesRefused(size_t bytes, const Limits& limits);
// RESOURCE_EXHAUSTED with RetryInfo: other messages are parsed in the memory that this one would take so many bytes of.
absl::Status ParseMemoryRefused(size_t bytes, const Limits& limits);
// RESOURCE_EXHAUSTED: the output would be complete after the deadline, which is `left` nanoseconds away.
absl::Status WouldMissDeadline(const engine::DeadlineMiss& miss, engine::TimeNs left, int32_t retry_after_ms);
// The same, of a request that was in the engine's queue.
absl::Status NotBegunForDeadline(int32_t retry_after_ms);
// For a refusal by an engine's Submit: the queue is full, the model is draining, or its device failed.
absl::Status SubmitRefused(const absl::Status& status, int32_t retry_after_ms);

// "stop", "length", "cancelled", ...: the finish reason of a sequence in logs and metrics.
const char* FinishReasonName(engine::FinishReason reason);
// Whether the output is what was asked for: kStop, kLength and kConstraint.
bool EndsWell(engine::FinishReason reason);
// OK where it is, else the terminal status of the call.
absl::Status StatusOf(engine::FinishReason reason, const Limits& limits);
// UNAVAILABLE: tokens waited for the server's own text threads until their memory was full.
absl::Status DeliveryBehind(int32_t max_unsent_tokens);
// The terminal status of a call cancelled at `now`: DEADLINE_EXCEEDED near its deadline, since transports also cancel
// calls at their deadline, by their own clocks.
absl::Status CancelledStatus(engine::TimeNs deadline, engine::TimeNs now);

}  // namespace dunlin::server
