// SPDX-License-Identifier: Apache-2.0
// The error catalogue of the serving core: every refusal and failure that a client can see is made here, as an
// absl::Status with details that any front end can render (ErrorDetails). Messages say what, value and limit; they
// never quote prompts, paths or addresses. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/request_field.h"
#include "engine/types.h"
#include "server/access/admission.h"
#include "server/serving/limits.h"

namespace dunlin::server {

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

// One row per reason, the index is the enumerator: the name in responses and metrics, and the one code it comes with.
struct ReasonTraits {
  Reason reason;
  const char* name;
  absl::StatusCode code;
};
const ReasonTraits& Traits(Reason reason);

// What a status says besides its code and message. Empty fields do not apply.
struct ErrorDetails {
  std::string reason;                 // Traits(reason).name; "" for a status that was not made here
  std::string field;                  // the field at fault, as the front end names it
  std::string limit;                  // of that field
  std::string model;                  // that is not served; cut and escaped
  std::vector<std::string> refusals;  // every reason against the execution profile
  std::string config_key;             // of the limit that is reached
  std::optional<int32_t> retry_after_ms;
};
ErrorDetails DetailsOf(const absl::Status& status);
// DetailsOf(status).reason and .retry_after_ms.
std::string ReasonName(const absl::Status& status);
std::optional<int32_t> RetryAfterMs(const absl::Status& status);

// A status with a reason alone.
absl::Status MakeError(Reason reason, std::string_view message);
// INVALID_ARGUMENT "<field> <problem>; limit is <limit>".
absl::Status InvalidField(const engine::Violation& violation, const engine::FieldNames& names);
// NOT_FOUND. The name is cut and escaped.
absl::Status UnknownModel(std::string_view name);
// FAILED_PRECONDITION with every reason against the profile.
absl::Status ProfileRefused(std::string_view message, const std::vector<std::string>& refusals);
// RESOURCE_EXHAUSTED: a limit of the server, and when to try again.
absl::Status Overloaded(Reason reason, std::string_view message, std::string_view config_key, int32_t retry_after_ms);
// UNAVAILABLE or RESOURCE_EXHAUSTED.
absl::Status AdmissionRefused(AdmissionRefusal refusal, const Limits& limits);
// What Submit of an engine refused: a full queue, or a model that is draining or broken.
absl::Status SubmitRefused(const absl::Status& status, int32_t retry_after_ms);

// "stop", "length", "cancelled", ...: how logs and metrics name the end of a sequence.
const char* FinishReasonName(engine::FinishReason reason);
// OK for kStop and kLength; what the call ends with for the others.
absl::Status StatusOf(engine::FinishReason reason);
// What a call ends with that was cancelled at `now`: transports also cancel at the call's deadline, by their own
// clocks.
absl::Status CancelledStatus(engine::TimeNs deadline, engine::TimeNs now);

}  // namespace dunlin::server
