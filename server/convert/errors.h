// The edge's error catalogue: every refusal and failure that a client can see is made here, as an absl::Status that
// carries its google.rpc details as payloads (type URL -> serialized message). Always an ErrorInfo with one of the
// reasons below; further details by kind. Messages say what, value and limit; they never quote prompts, paths or
// addresses. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace dunlin::server {

inline constexpr char kErrorDomain[] = "dunlin";

enum class Reason : uint8_t {
  kInvalidField,
  kMalformedMessage,
  kUnknownModel,
  kUnknownService,
  kNoTokenizer,
  kWrongModelKind,
  kChatUnsupported,
  kProfileUnsupported,
  kTooManyRequests,
  kTooManyQueuedBytes,
  kQueueFull,
  kNotReady,
  kDraining,
  kShutdown,
  kDeadline,
  kCancelled,
  kSlowReader,
  kNumerical,
  kDeviceFailed,
  kInternal,
};

// One row per reason, the index is the enumerator: the name in ErrorInfo and metrics, and the one code it comes with.
struct ReasonTraits {
  Reason reason;
  const char* name;
  absl::StatusCode code;
};
const ReasonTraits& Traits(Reason reason);

// A status with ErrorInfo alone.
absl::Status MakeError(Reason reason, std::string_view message);

// INVALID_ARGUMENT "<field> <problem>" with BadRequest.FieldViolation{field, problem}. `field` is the path in the
// proto: "sampling.top_p", "stopping.stop[3]". `limit` also goes to ErrorInfo.metadata.
absl::Status InvalidField(std::string_view field, std::string_view problem, std::string_view limit);

// NOT_FOUND with ResourceInfo. The name is cut and escaped.
absl::Status UnknownModel(std::string_view name);

// FAILED_PRECONDITION with one PreconditionFailure violation per reason.
absl::Status ProfileRefused(std::string_view message, const std::vector<std::string>& reasons);

// RESOURCE_EXHAUSTED with RetryInfo and QuotaFailure{subject: the config key, description: message}.
absl::Status Overloaded(Reason reason, std::string_view message, std::string_view config_key, int32_t retry_after_ms);

// What the engine refused (Validate, Submit): the same code and message, with the details of that code.
// INVALID_ARGUMENT: the engine's messages begin with the field, which becomes the violation's.
absl::Status FromEngine(const absl::Status& status, int32_t retry_after_ms);

// ErrorInfo.reason; "" when there is none.
std::string ReasonName(const absl::Status& status);
// RetryInfo.retry_delay in milliseconds.
std::optional<int32_t> RetryAfterMs(const absl::Status& status);

}  // namespace dunlin::server
