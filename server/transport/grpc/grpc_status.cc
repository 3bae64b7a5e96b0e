// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/grpc_status.h"

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

// HTTP/2 trailers count against the client's metadata limit, 8 KiB by default; longer ones would lose the status
// itself.
constexpr size_t kMaxDetailsBytes = 4096;
constexpr size_t kMaxMessageBytes = 1024;
constexpr char kErrorDomain[] = "dunlin";
constexpr char kModelResource[] = "dunlin.v1.Model";
constexpr char kRetryPushbackKey[] = "grpc-retry-pushback-ms";

// As many details as fit.
template <class Detail>
void Add(const Detail& detail, google::rpc::Status* wire) {
  google::protobuf::Any any;
  any.PackFrom(detail);
  if (wire->ByteSizeLong() + any.ByteSizeLong() <= kMaxDetailsBytes) *wire->add_details() = std::move(any);
}

google::rpc::ErrorInfo ErrorInfoOf(const ErrorDetails& details) {
  google::rpc::ErrorInfo info;
  info.set_reason(details.reason.empty() ? Traits(Reason::kInternal).name : details.reason);
  info.set_domain(kErrorDomain);
  if (!details.field.empty()) (*info.mutable_metadata())["field"] = details.field;
  if (!details.limit.empty()) (*info.mutable_metadata())["limit"] = details.limit;
  return info;
}

google::rpc::BadRequest BadRequestOf(const ErrorDetails& details, const std::string& message) {
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field(details.field);
  violation->set_description(message);
  return bad;
}

google::rpc::PreconditionFailure PreconditionFailureOf(const ErrorDetails& details) {
  google::rpc::PreconditionFailure failure;
  for (const std::string& refusal : details.refusals) {
    auto* violation = failure.add_violations();
    violation->set_type(details.reason);
    violation->set_subject("execution");
    violation->set_description(refusal);
  }
  return failure;
}

google::rpc::QuotaFailure QuotaFailureOf(const ErrorDetails& details, const std::string& message) {
  google::rpc::QuotaFailure quota;
  auto* violation = quota.add_violations();
  violation->set_subject(details.config_key);
  violation->set_description(message);
  return quota;
}

google::rpc::ResourceInfo ResourceInfoOf(const ErrorDetails& details) {
  google::rpc::ResourceInfo resource;
  resource.set_resource_type(kModelResource);
  resource.set_resource_name(details.model);
  return resource;
}

google::rpc::RetryInfo RetryInfoOf(int32_t milliseconds) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(milliseconds / 1000);
  retry.mutable_retry_delay()->set_nanos(milliseconds % 1000 * 1'000'000);
  return retry;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message(status.message());
  const ErrorDetails details = DetailsOf(status);
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  wire.set_message(message.substr(0, kMaxMessageBytes));
  Add(ErrorInfoOf(details), &wire);
  if (!details.field.empty()) Add(BadRequestOf(details, message), &wire);
  if (!details.refusals.empty()) Add(PreconditionFailureOf(details), &wire);
  if (!details.config_key.empty()) Add(QuotaFailureOf(details, message), &wire);
  if (!details.model.empty()) Add(ResourceInfoOf(details), &wire);
  if (details.retry_after_ms.has_value()) Add(RetryInfoOf(*details.retry_after_ms), &wire);
  return {static_cast<grpc::StatusCode>(status.code()), wire.message(), wire.SerializeAsString()};
}

GrpcReply ToGrpcReply(const absl::Status& status) {
  GrpcReply reply{ToGrpcStatus(status), std::nullopt};
  if (const auto retry_ms = RetryAfterMs(status)) reply.retry_pushback_ms = std::to_string(*retry_ms);
  return reply;
}

void AddTrailers(const GrpcReply& reply, grpc::CallbackServerContext* context) {
  if (reply.retry_pushback_ms.has_value()) context->AddTrailingMetadata(kRetryPushbackKey, *reply.retry_pushback_ms);
}

}  // namespace dunlin::server
