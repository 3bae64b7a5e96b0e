#include "server/convert/errors.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "engine/base/string_view.h"
#include "google/rpc/error_details.pb.h"

namespace dunlin::server {
namespace {

using absl::StatusCode;

constexpr ReasonTraits kReasonTable[] = {
    {Reason::kInvalidField, "INVALID_FIELD", StatusCode::kInvalidArgument},
    {Reason::kMalformedMessage, "MALFORMED_MESSAGE", StatusCode::kInvalidArgument},
    {Reason::kUnknownModel, "UNKNOWN_MODEL", StatusCode::kNotFound},
    {Reason::kUnknownService, "UNKNOWN_SERVICE", StatusCode::kNotFound},
    {Reason::kNoTokenizer, "NO_TOKENIZER", StatusCode::kFailedPrecondition},
    {Reason::kWrongModelKind, "WRONG_MODEL_KIND", StatusCode::kFailedPrecondition},
    {Reason::kChatUnsupported, "CHAT_UNSUPPORTED", StatusCode::kUnimplemented},
    {Reason::kProfileUnsupported, "PROFILE_UNSUPPORTED", StatusCode::kFailedPrecondition},
    {Reason::kTooManyRequests, "TOO_MANY_REQUESTS", StatusCode::kResourceExhausted},
    {Reason::kTooManyQueuedBytes, "TOO_MANY_QUEUED_BYTES", StatusCode::kResourceExhausted},
    {Reason::kQueueFull, "QUEUE_FULL", StatusCode::kResourceExhausted},
    {Reason::kNotReady, "NOT_READY", StatusCode::kUnavailable},
    {Reason::kDraining, "DRAINING", StatusCode::kUnavailable},
    {Reason::kShutdown, "SHUTDOWN", StatusCode::kUnavailable},
    {Reason::kDeadline, "DEADLINE", StatusCode::kDeadlineExceeded},
    {Reason::kCancelled, "CANCELLED", StatusCode::kCancelled},
    {Reason::kSlowReader, "SLOW_READER", StatusCode::kResourceExhausted},
    {Reason::kNumerical, "NUMERICAL", StatusCode::kInternal},
    {Reason::kDeviceFailed, "DEVICE_FAILED", StatusCode::kUnavailable},
    {Reason::kInternal, "INTERNAL", StatusCode::kInternal},
};

constexpr size_t kMaxQuotedBytes = 64;  // of a client's own text in a message

template <class Detail>
std::string TypeUrl() {
  return absl::StrCat("type.googleapis.com/", Detail::descriptor()->full_name());
}

template <class Detail>
void Attach(const Detail& detail, absl::Status* status) {
  status->SetPayload(TypeUrl<Detail>(), absl::Cord(detail.SerializeAsString()));
}

template <class Detail>
std::optional<Detail> Extract(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(TypeUrl<Detail>());
  Detail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

google::rpc::ErrorInfo Info(Reason reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(Traits(reason).name);
  info.set_domain(kErrorDomain);
  return info;
}

std::string Quoted(std::string_view text) {
  const bool cut = text.size() > kMaxQuotedBytes;
  const std::string shown(text.substr(0, kMaxQuotedBytes));
  return absl::StrCat("\"", absl::CHexEscape(shown), cut ? "...\"" : "\"");
}

// The first word of an engine's message: "prompt", "sampling.top_p", "stop_token_ids[3]".
std::string FirstWord(std::string_view message) {
  return std::string(message.substr(0, message.find(' ')));
}

}  // namespace

const ReasonTraits& Traits(Reason reason) {
  return kReasonTable[static_cast<size_t>(reason)];
}

absl::Status MakeError(Reason reason, std::string_view message) {
  absl::Status status(Traits(reason).code, engine::AbslView(message));
  Attach(Info(reason), &status);
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view problem, std::string_view limit) {
  std::string message(field);
  message.append(" ").append(problem);
  if (!limit.empty()) message.append("; limit is ").append(limit);
  absl::Status status = absl::InvalidArgumentError(message);
  google::rpc::ErrorInfo info = Info(Reason::kInvalidField);
  (*info.mutable_metadata())["field"] = std::string(field);
  if (!limit.empty()) (*info.mutable_metadata())["limit"] = std::string(limit);
  Attach(info, &status);
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field(std::string(field));
  violation->set_description(message);
  Attach(bad, &status);
  return status;
}

absl::Status UnknownModel(std::string_view name) {
  absl::Status status = MakeError(Reason::kUnknownModel, absl::StrCat("model ", Quoted(name), " is not served"));
  google::rpc::ResourceInfo resource;
  resource.set_resource_type("dunlin.v1.Model");
  resource.set_resource_name(absl::CHexEscape(std::string(name.substr(0, kMaxQuotedBytes))));
  Attach(resource, &status);
  return status;
}

absl::Status ProfileRefused(std::string_view message, const std::vector<std::string>& reasons) {
  absl::Status status = MakeError(Reason::kProfileUnsupported, message);
  google::rpc::PreconditionFailure failure;
  for (const std::string& reason : reasons) {
    auto* violation = failure.add_violations();
    violation->set_type(Traits(Reason::kProfileUnsupported).name);
    violation->set_subject("execution");
    violation->set_description(reason);
  }
  Attach(failure, &status);
  return status;
}

absl::Status Overloaded(Reason reason, std::string_view message, std::string_view config_key, int32_t retry_after_ms) {
  absl::Status status = MakeError(reason, message);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(retry_after_ms / 1000);
  retry.mutable_retry_delay()->set_nanos(retry_after_ms % 1000 * 1'000'000);
  Attach(retry, &status);
  google::rpc::QuotaFailure quota;
  auto* violation = quota.add_violations();
  violation->set_subject(std::string(config_key));
  violation->set_description(std::string(message));
  Attach(quota, &status);
  return status;
}

absl::Status FromEngine(const absl::Status& status, int32_t retry_after_ms) {
  const std::string_view message = engine::StdView(status.message());
  switch (status.code()) {
    case StatusCode::kOk:
      return status;
    case StatusCode::kInvalidArgument: {
      const std::string field = FirstWord(message);
      return InvalidField(field, message.substr(std::min(message.size(), field.size() + 1)), "");
    }
    case StatusCode::kResourceExhausted:
      return Overloaded(Reason::kQueueFull, message, "scheduler.max_queued_requests", retry_after_ms);
    case StatusCode::kUnavailable:
      return MakeError(Reason::kDraining, message);
    case StatusCode::kFailedPrecondition:
      return ProfileRefused(message, {std::string(message)});
    default:
      return MakeError(Reason::kInternal, "the engine refused the request");
  }
}

std::string ReasonName(const absl::Status& status) {
  const auto info = Extract<google::rpc::ErrorInfo>(status);
  return info.has_value() ? info->reason() : "";
}

std::optional<int32_t> RetryAfterMs(const absl::Status& status) {
  const auto retry = Extract<google::rpc::RetryInfo>(status);
  if (!retry.has_value()) return std::nullopt;
  return static_cast<int32_t>(retry->retry_delay().seconds() * 1000 + retry->retry_delay().nanos() / 1'000'000);
}

}  // namespace dunlin::server
