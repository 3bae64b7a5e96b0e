// SPDX-License-Identifier: Apache-2.0
#include "server/observe/tracing/otlp_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/base/status_name.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"

namespace dunlin::server {
namespace {

namespace collector = otlp::collector::trace::v1;

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const OtlpClientOptions& options) {
  if (!options.tls.has_value()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({options.tls->ca_pem, options.tls->key_pem, options.tls->certificate_pem});
}

std::shared_ptr<grpc::Channel> NewChannel(const OtlpClientOptions& options) {
  const int min_backoff_ms = static_cast<int>(absl::ToInt64Milliseconds(options.min_backoff));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // the exporter retries
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, min_backoff_ms);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(absl::ToInt64Milliseconds(options.timeout)));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, static_cast<int>(absl::ToInt64Milliseconds(options.max_backoff)));
  arguments.SetServiceConfigJSON("{}");
  return grpc::CreateCustomChannel(options.address, CredentialsOf(options), arguments);
}

// Those that OTLP's specification lets a client repeat.
bool MayRetry(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return true;
    default:
      return false;
  }
}

class OtlpClient final : public SpanSink {
 public:
  explicit OtlpClient(const OtlpClientOptions& options)
      : timeout_(options.timeout), stub_(collector::TraceService::NewStub(NewChannel(options))) {}

  Result Export(const collector::ExportTraceServiceRequest& batch) override {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
    if (!Enter(&context)) return {Outcome::kRefused, 0, "cancelled"};
    collector::ExportTraceServiceResponse response;
    const grpc::Status status = stub_->Export(&context, batch, &response);
    Leave();
    if (status.ok()) return {Outcome::kTaken, response.partial_success().rejected_spans(), ""};
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    return {MayRetry(status.error_code()) ? Outcome::kRetry : Outcome::kRefused, 0,
            absl::StrCat(engine::StatusName(code), ": ", status.error_message())};
  }

  void Cancel() override {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (current_ != nullptr) current_->TryCancel();
  }

 private:
  bool Enter(grpc::ClientContext* context) {
    absl::MutexLock lock(&mutex_);
    if (!cancelled_) current_ = context;
    return !cancelled_;
  }
  void Leave() {
    absl::MutexLock lock(&mutex_);
    current_ = nullptr;
  }

  const absl::Duration timeout_;
  const std::unique_ptr<collector::TraceService::Stub> stub_;
  absl::Mutex mutex_;                                               // guards what follows, between Export and Cancel
  grpc::ClientContext* current_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the Export under way
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<SpanSink> NewOtlpClient(const OtlpClientOptions& options) {
  return std::make_unique<OtlpClient>(options);
}

}  // namespace dunlin::server
