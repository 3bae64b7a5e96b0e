// SPDX-License-Identifier: Apache-2.0
#include "server/serving/record/errors.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "engine/base/string_view.h"
#include "engine/loop/mailbox.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {
namespace {

using absl::StatusCode;

constexpr ReasonTraits kReasonTable[] = {
    {Reason::kInvalidField, "INVALID_FIELD", StatusCode::kInvalidArgument},
    {Reason::kMalformedMessage, "MALFORMED_MESSAGE", StatusCode::kInvalidArgument},
    {Reason::kUnauthenticated, "UNAUTHENTICATED", StatusCode::kUnauthenticated},
    {Reason::kPermissionDenied, "PERMISSION_DENIED", StatusCode::kPermissionDenied},
    {Reason::kRequestQuota, "REQUEST_QUOTA", StatusCode::kResourceExhausted},
    {Reason::kTokenQuota, "TOKEN_QUOTA", StatusCode::kResourceExhausted},
    {Reason::kConcurrencyQuota, "CONCURRENCY_QUOTA", StatusCode::kResourceExhausted},
    {Reason::kUnknownModel, "UNKNOWN_MODEL", StatusCode::kNotFound},
    {Reason::kModelNotServed, "MODEL_NOT_SERVED", StatusCode::kUnavailable},
    {Reason::kLoadFailed, "LOAD_FAILED", StatusCode::kFailedPrecondition},
    {Reason::kModelMemory, "MODEL_MEMORY", StatusCode::kResourceExhausted},
    {Reason::kUnknownService, "UNKNOWN_SERVICE", StatusCode::kNotFound},
    {Reason::kUnknownAdapter, "UNKNOWN_ADAPTER", StatusCode::kNotFound},
    {Reason::kAdapterExists, "ADAPTER_EXISTS", StatusCode::kAlreadyExists},
    {Reason::kNoTokenizer, "NO_TOKENIZER", StatusCode::kFailedPrecondition},
    {Reason::kWrongModelKind, "WRONG_MODEL_KIND", StatusCode::kFailedPrecondition},
    {Reason::kChatUnsupported, "CHAT_UNSUPPORTED", StatusCode::kFailedPrecondition},
    {Reason::kChatRefused, "CHAT_REFUSED", StatusCode::kInvalidArgument, true},
    {Reason::kGrammarInvalid, "GRAMMAR_INVALID", StatusCode::kInvalidArgument, true},
    {Reason::kGrammarUnsupported, "GRAMMAR_UNSUPPORTED", StatusCode::kInvalidArgument, true},
    {Reason::kGrammarTooComplex, "GRAMMAR_TOO_COMPLEX", StatusCode::kInvalidArgument, true},
    {Reason::kProfileUnsupported, "PROFILE_UNSUPPORTED", StatusCode::kFailedPrecondition},
    {Reason::kTooManyRequests, "TOO_MANY_REQUESTS", StatusCode::kResourceExhausted},
    {Reason::kTooManyQueuedBytes, "TOO_MANY_QUEUED_BYTES", StatusCode::kResourceExhausted},
    {Reason::kTooManyOutputBytes, "TOO_MANY_OUTPUT_BYTES", StatusCode::kResourceExhausted},
    {Reason::kQueueFull, "QUEUE_FULL", StatusCode::kResourceExhausted},
    {Reason::kWouldMissDeadline, "WOULD_MISS_DEADLINE", StatusCode::kResourceExhausted},
    {Reason::kLoading, "LOADING", StatusCode::kUnavailable},
    {Reason::kDraining, "DRAINING", StatusCode::kUnavailable},
    {Reason::kShutdown, "SHUTDOWN", StatusCode::kUnavailable},
    {Reason::kDeadline, "DEADLINE", StatusCode::kDeadlineExceeded},
    {Reason::kCancelled, "CANCELLED", StatusCode::kCancelled},
    {Reason::kSlowReader, "SLOW_READER", StatusCode::kResourceExhausted},
    {Reason::kDeliveryBehind, "DELIVERY_BEHIND", StatusCode::kUnavailable},
    {Reason::kNumerical, "NUMERICAL", StatusCode::kInternal},
    {Reason::kPoolTooSmall, "POOL_TOO_SMALL", StatusCode::kResourceExhausted},
    {Reason::kDeviceFailed, "DEVICE_FAILED", StatusCode::kUnavailable},
    {Reason::kStalled, "STALLED", StatusCode::kUnavailable},
    {Reason::kNotImplemented, "NOT_IMPLEMENTED", StatusCode::kUnimplemented},
    {Reason::kInternal, "INTERNAL", StatusCode::kInternal},
};

constexpr size_t kMaxEscapedBytes = 64;                  // of client-supplied text quoted in a message
constexpr size_t kMaxQuotedNameBytes = 32;               // of a name that a table does not have
constexpr engine::TimeNs kDeadlineSlackNs = 20'000'000;  // a cancel this close to the deadline counts as its expiry

// The details of a status are stored as plain-text payloads, one per key.
constexpr char kReasonKey[] = "dunlin/reason";
constexpr char kFieldKey[] = "dunlin/field";
constexpr char kLimitKey[] = "dunlin/limit";
constexpr char kModelKey[] = "dunlin/model";
constexpr char kRefusalsKey[] = "dunlin/refusals";  // separated by line breaks
constexpr const char* kConfigKey = engine::kConfigKeyPayload;
constexpr char kRetryAfterKey[] = "dunlin/retry_after_ms";

void Attach(const char* key, std::string_view text, absl::Status* status) {
  if (!text.empty()) status->SetPayload(key, absl::Cord(engine::AbslView(text)));
}

std::string Payload(const absl::Status& status, const char* key) {
  const absl::optional<absl::Cord> payload = status.GetPayload(key);
  return payload.has_value() ? std::string(*payload) : std::string();
}

std::string Escaped(std::string_view text) {
  return absl::CHexEscape(std::string(text.substr(0, kMaxEscapedBytes)));
}

absl::Status Cancelled() {
  return MakeError(Reason::kCancelled, "the request was cancelled");
}

absl::Status DeadlinePassed() {
  return MakeError(Reason::kDeadline, "the deadline passed before the output was complete");
}

absl::Status DeviceFailed() {
  return MakeError(Reason::kDeviceFailed, "the device failed");
}

}  // namespace

const ReasonTraits& Traits(Reason reason) {
  return kReasonTable[static_cast<size_t>(reason)];
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  details.reason = Payload(status, kReasonKey);
  details.field = Payload(status, kFieldKey);
  details.limit = Payload(status, kLimitKey);
  details.model = Payload(status, kModelKey);
  const std::string refusals = Payload(status, kRefusalsKey);
  if (!refusals.empty()) details.refusals = absl::StrSplit(refusals, '\n');
  details.config_key = Payload(status, kConfigKey);
  details.retry_after_ms = RetryAfterMs(status);
  return details;
}

std::string ReasonName(const absl::Status& status) {
  return Payload(status, kReasonKey);
}

bool QuotesClient(const absl::Status& status) {
  const std::string name = ReasonName(status);
  return std::any_of(std::begin(kReasonTable), std::end(kReasonTable),
                     [&name](const ReasonTraits& row) { return row.quotes_client && row.name == name; });
}

std::optional<int32_t> RetryAfterMs(const absl::Status& status) {
  int32_t milliseconds = 0;
  if (!absl::SimpleAtoi(Payload(status, kRetryAfterKey), &milliseconds)) return std::nullopt;
  return milliseconds;
}

absl::Status MakeError(Reason reason, std::string_view message) {
  absl::Status status(Traits(reason).code, engine::AbslView(message));
  Attach(kReasonKey, Traits(reason).name, &status);
  return status;
}

absl::Status InvalidField(const engine::Violation& violation, const FieldNames& names) {
  absl::Status status = MakeError(Reason::kInvalidField, engine::Describe(violation, names.list()));
  Attach(kFieldKey, engine::NameOf(violation, names.list()), &status);
  Attach(kLimitKey, violation.limit, &status);
  return status;
}

absl::Status GrammarRefused(const absl::Status& status, engine::Field field, const FieldNames& names) {
  if (absl::IsFailedPrecondition(status)) {
    return MakeError(Reason::kNoTokenizer, absl::StrCat("structured output is not available: ", status.message()));
  }
  Reason reason = Reason::kInternal;
  if (absl::IsInvalidArgument(status)) reason = Reason::kGrammarInvalid;
  if (absl::IsUnimplemented(status)) reason = Reason::kGrammarUnsupported;
  if (absl::IsResourceExhausted(status)) reason = Reason::kGrammarTooComplex;
  absl::Status refused = MakeError(reason, absl::StrCat(names[field], " ", status.message()));
  Attach(kFieldKey, names[field], &refused);
  return refused;
}

absl::Status RefusedByText(const absl::Status& status, engine::Field field, engine::FieldIndex index,
                           const FieldNames& names) {
  if (!absl::IsInvalidArgument(status) && !absl::IsResourceExhausted(status)) return status;
  constexpr std::string_view kLimitWords = "; limit is ";
  const std::string_view message = engine::StdView(status.message());
  const size_t end = std::min(message.find(kLimitWords), message.size());
  const std::string_view limit = message.substr(std::min(end + kLimitWords.size(), message.size()));
  return InvalidField(engine::Violation::Of(field, std::string(message.substr(0, end)), std::string(limit), index),
                      names);
}

absl::Status InvalidField(std::string_view field, std::string_view problem, std::string_view limit) {
  const char* separator = limit.empty() ? "" : "; limit is ";
  absl::Status status = MakeError(
      Reason::kInvalidField,
      absl::StrCat(engine::AbslView(field), " ", engine::AbslView(problem), separator, engine::AbslView(limit)));
  Attach(kFieldKey, field, &status);
  Attach(kLimitKey, limit, &status);
  return status;
}

std::string UnknownName(std::string_view text, std::string_view noun) {
  const bool is_name =
      !text.empty() && text.size() <= kMaxQuotedNameBytes && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
      });
  if (is_name) return absl::StrCat("is \"", engine::AbslView(text), "\"");
  return absl::StrCat("is another ", engine::AbslView(noun));
}

absl::Status UnknownModel(std::string_view name) {
  const char* ellipsis = name.size() > kMaxEscapedBytes ? "..." : "";
  absl::Status status =
      MakeError(Reason::kUnknownModel, absl::StrCat("model \"", Escaped(name), ellipsis, "\" is not served"));
  Attach(kModelKey, Escaped(name), &status);
  return status;
}

absl::Status ModelNotServed(std::string_view name, std::string_view state, int32_t retry_after_ms) {
  absl::Status status =
      MakeError(Reason::kModelNotServed, absl::StrCat("model \"", Escaped(name), "\" ", engine::AbslView(state)));
  Attach(kModelKey, Escaped(name), &status);
  Attach(kRetryAfterKey, absl::StrCat(retry_after_ms), &status);
  return status;
}

absl::Status ProfileRefused(std::string_view message, const std::vector<std::string>& refusals) {
  absl::Status status = MakeError(Reason::kProfileUnsupported, message);
  Attach(kRefusalsKey, absl::StrJoin(refusals, "\n"), &status);
  return status;
}

absl::Status AccessRefused(AccessRefusal refusal, const Principal& caller, const Endpoint& endpoint) {
  if (refusal == AccessRefusal::kUnauthenticated) {
    return MakeError(Reason::kUnauthenticated, "the call needs a valid key: authorization: Bearer KEY");
  }
  if (caller.anonymous()) {
    return MakeError(Reason::kPermissionDenied,
                     absl::StrCat("the call needs a key with the permission \"", Name(*endpoint.needed),
                                  "\", and the server, which other machines can reach, has no keys "
                                  "(access.keys_file, access.admin_without_keys)"));
  }
  return MakeError(Reason::kPermissionDenied, absl::StrCat("the call needs the permission \"", Name(*endpoint.needed),
                                                           "\"; key \"", caller.name, "\" does not have it"));
}

absl::Status KeyForbids(engine::Field field, std::string_view value, std::string_view allowed,
                        const FieldNames& names) {
  absl::Status status = MakeError(
      Reason::kPermissionDenied,
      absl::StrCat(names[field], " is ", engine::AbslView(value), "; the key allows ", engine::AbslView(allowed)));
  Attach(kFieldKey, names[field], &status);
  Attach(kLimitKey, allowed, &status);
  return status;
}

absl::Status QuotaRefused(const Principal& caller, const QuotaRefusal& refusal, int32_t stream_retry_ms) {
  struct Row {
    const char* field;  // of the key file
    const char* what;
    Reason reason;
  };
  constexpr Row kRows[] = {{"requests_per_minute", "requests a minute", Reason::kRequestQuota},
                           {"tokens_per_minute", "tokens a minute", Reason::kTokenQuota},
                           {"max_concurrent", "requests at once", Reason::kConcurrencyQuota}};
  const Row& row = kRows[static_cast<size_t>(refusal.kind)];
  absl::Status status = MakeError(row.reason, absl::StrCat("key \"", caller.name, "\" has used up its ", row.what,
                                                           "; limit is ", refusal.limit, " (", row.field, ")"));
  Attach(kConfigKey, absl::StrCat("keys[", caller.name, "].", row.field), &status);
  if (refusal.limit == 0) return status;  // it will not pass
  constexpr engine::TimeNs kNsPerMs = 1'000'000;
  const engine::TimeNs longest = engine::TimeNs{INT32_MAX} * kNsPerMs;
  const engine::TimeNs wait = std::min(refusal.retry_after.value_or(stream_retry_ms * kNsPerMs), longest);
  Attach(kRetryAfterKey, absl::StrCat((wait + kNsPerMs - 1) / kNsPerMs), &status);
  return status;
}

absl::Status Overloaded(Reason reason, std::string_view message, std::string_view config_key, int32_t retry_after_ms) {
  absl::Status status = MakeError(reason, message);
  Attach(kConfigKey, config_key, &status);
  Attach(kRetryAfterKey, absl::StrCat(retry_after_ms), &status);
  return status;
}

absl::Status NotBegunForDeadline(int32_t retry_after_ms) {
  return Overloaded(Reason::kWouldMissDeadline,
                    "the request has not begun: its output would not be complete by the deadline", "", retry_after_ms);
}

absl::Status WouldMissDeadline(const engine::DeadlineMiss& miss, engine::TimeNs left, int32_t retry_after_ms) {
  constexpr engine::TimeNs kNsPerMs = 1'000'000;
  return Overloaded(Reason::kWouldMissDeadline,
                    absl::StrCat("the output would be complete after ", miss.expected / kNsPerMs, " ms, beside ",
                                 miss.running, " sequences that run and behind ", miss.ahead,
                                 " that wait; the deadline is in ", left / kNsPerMs, " ms"),
                    "", retry_after_ms);
}

absl::Status SubmitRefused(const absl::Status& status, int32_t retry_after_ms) {
  const std::string_view message = engine::StdView(status.message());
  switch (status.code()) {
    case StatusCode::kResourceExhausted:
      return Overloaded(Reason::kQueueFull, message, Payload(status, engine::kConfigKeyPayload), retry_after_ms);
    case StatusCode::kUnavailable:
      return MakeError(Reason::kDraining, message);
    case StatusCode::kInternal:
      return DeviceFailed();
    default:
      return MakeError(Reason::kInternal, "the engine refused the request");
  }
}

const char* FinishReasonName(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kConstraint:
      return "constraint";
    case engine::FinishReason::kCancelled:
      return "cancelled";
    case engine::FinishReason::kDeadline:
      return "deadline";
    case engine::FinishReason::kSlowReader:
      return "slow_reader";
    case engine::FinishReason::kNumerical:
      return "numerical";
    case engine::FinishReason::kPoolTooSmall:
      return "pool_too_small";
    case engine::FinishReason::kShutdown:
      return "shutdown";
    case engine::FinishReason::kInternal:
      return "internal";
  }
  return "?";
}

bool EndsWell(engine::FinishReason reason) {
  return reason == engine::FinishReason::kStop || reason == engine::FinishReason::kLength ||
         reason == engine::FinishReason::kConstraint;
}

absl::Status StatusOf(engine::FinishReason reason, const Limits& limits) {
  switch (reason) {
    case engine::FinishReason::kStop:
    case engine::FinishReason::kLength:
    case engine::FinishReason::kConstraint:
      return absl::OkStatus();
    case engine::FinishReason::kCancelled:
      return Cancelled();
    case engine::FinishReason::kDeadline:
      return DeadlinePassed();
    case engine::FinishReason::kSlowReader:
      return MakeError(
          Reason::kSlowReader,
          absl::StrCat("the client reads too slowly; limit is ", limits.max_unsent_tokens,
                       " tokens that wait for it (limits.max_unsent_tokens) and ", limits.slow_reader_timeout_ms,
                       " ms for a message (limits.slow_reader_timeout_ms)"));
    case engine::FinishReason::kNumerical:
      return MakeError(Reason::kNumerical,
                       "no token can be drawn: the model produced no finite value, or every token is banned");
    case engine::FinishReason::kPoolTooSmall:
      return MakeError(
          Reason::kPoolTooSmall,
          "the request needs more KV pages than the system had memory for; the model's kv_pool in GetModel "
          "and the log say how many there are (models[].kv_cache.memory_bytes)");
    case engine::FinishReason::kShutdown:
      return MakeError(Reason::kShutdown, "the server is shutting down");
    case engine::FinishReason::kInternal:
      return DeviceFailed();
  }
  return MakeError(Reason::kInternal, "unknown finish reason");
}

absl::Status DeliveryBehind(int32_t max_unsent_tokens) {
  return MakeError(Reason::kDeliveryBehind,
                   absl::StrCat("the server could not deliver ", max_unsent_tokens,
                                " tokens in time (compute.text_threads, limits.max_unsent_tokens)"));
}

absl::Status CancelledStatus(engine::TimeNs deadline, engine::TimeNs now) {
  const bool late = deadline != engine::kNoDeadline && now >= deadline - kDeadlineSlackNs;
  return late ? DeadlinePassed() : Cancelled();
}

}  // namespace dunlin::server
