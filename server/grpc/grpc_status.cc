#include "server/grpc/grpc_status.h"

#include <map>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "google/rpc/status.pb.h"
#include "server/convert/errors.h"

namespace dunlin::server {
namespace {

// HTTP/2 trailers share the client's metadata limit, 8 KiB by default; what is longer would lose the status itself.
constexpr size_t kMaxDetailsBytes = 4096;
constexpr size_t kMaxMessageBytes = 1024;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = std::string(status.message()).substr(0, kMaxMessageBytes);
  absl::Status with_info = status;
  if (ReasonName(status).empty()) with_info = MakeError(Reason::kInternal, message);

  google::rpc::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  wire.set_message(message);
  // ErrorInfo first, as it is the one detail that is always there; absl visits payloads in no particular order.
  std::map<std::string, std::string> payloads;
  with_info.ForEachPayload([&payloads](absl::string_view type_url, const absl::Cord& payload) {
    payloads.emplace(std::string(type_url), std::string(payload));
  });
  const std::string error_info = "type.googleapis.com/google.rpc.ErrorInfo";
  const auto add = [&wire](const std::string& type_url, const std::string& value) {
    if (wire.ByteSizeLong() + type_url.size() + value.size() > kMaxDetailsBytes) return;
    auto* detail = wire.add_details();
    detail->set_type_url(type_url);
    detail->set_value(value);
  };
  add(error_info, payloads[error_info]);
  for (const auto& [type_url, value] : payloads) {
    if (type_url != error_info) add(type_url, value);
  }
  return {static_cast<grpc::StatusCode>(status.code()), message, wire.SerializeAsString()};
}

std::optional<std::string> RetryPushbackMs(const absl::Status& status) {
  const std::optional<int32_t> retry_ms = RetryAfterMs(status);
  if (!retry_ms.has_value()) return std::nullopt;
  return std::to_string(*retry_ms);
}

void AddStatusTrailers(const absl::Status& status, grpc::CallbackServerContext* context) {
  if (const auto retry_ms = RetryPushbackMs(status)) context->AddTrailingMetadata(kRetryPushbackKey, *retry_ms);
}

}  // namespace dunlin::server
