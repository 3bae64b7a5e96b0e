// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/health_service.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/record/errors.h"
#include "server/transport/grpc/call_access.h"
#include "server/transport/grpc/grpc_status.h"

namespace dunlin::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr std::string_view kModelPrefix = "model/";

std::string NameOfModel(const std::string& model) {
  return absl::StrCat(engine::AbslView(kModelPrefix), model);
}

}  // namespace

// One Watch call. Its members are guarded by the service's mutex_. If the status changes while a write is pending, the
// latest status is sent when that write is done.
class HealthService::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  // hidden: the name is as if there were none.
  Watcher(HealthService* service, std::string name, bool hidden)
      : service_(service), name_(std::move(name)), hidden_(hidden) {}

  void TellLocked() {
    if (pending_ || finished_) return;
    if (service_->shut_down_) return FinishLocked(MakeError(Reason::kShutdown, "the server is shutting down"));
    const HealthCheckResponse::ServingStatus now =
        !hidden_ && service_->Knows(name_) ? service_->status() : HealthCheckResponse::SERVICE_UNKNOWN;
    if (sent_ == now) return;
    sent_ = now;
    pending_ = true;
    response_.set_status(now);
    StartWrite(&response_);
  }

  void FinishLocked(const absl::Status& status) {
    if (finished_) return;
    finished_ = true;
    Finish(ToGrpcStatus(status));
  }

 private:
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&service_->mutex_);
    pending_ = false;
    if (!ok) return FinishLocked(absl::CancelledError());
    TellLocked();
  }
  void OnCancel() override {
    absl::MutexLock lock(&service_->mutex_);
    FinishLocked(absl::CancelledError());
  }
  void OnDone() override {
    {
      absl::MutexLock lock(&service_->mutex_);
      service_->watchers_.erase(this);
    }
    delete this;
  }

  HealthService* const service_;
  const std::string name_;
  const bool hidden_;
  std::optional<HealthCheckResponse::ServingStatus> sent_;
  bool pending_ = false;
  bool finished_ = false;
  HealthCheckResponse response_;  // of the pending write
};

HealthService::HealthService(const std::vector<std::string>& names, const AccessControl* access,
                             const EndpointTable* endpoints)
    : access_(access), endpoints_(endpoints), names_(names.begin(), names.end()) {
  names_.emplace();
}

void HealthService::OnModelAdded(const ModelLease& model) {
  absl::MutexLock lock(&mutex_);
  names_.insert(NameOfModel(model->name));
  TellWatchers();
}

void HealthService::OnModelRemoved(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  names_.erase(NameOfModel(name));
  TellWatchers();
}

void HealthService::SetServing(bool serving) {
  absl::MutexLock lock(&mutex_);
  serving_ = serving;
  TellWatchers();
}

void HealthService::StopServing() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  TellWatchers();
}

void HealthService::Shutdown() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  shut_down_ = true;
  TellWatchers();
}

HealthCheckResponse::ServingStatus HealthService::status() const {
  return serving_ && !stopped_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

bool HealthService::MayAsk(const std::string& name, const char* method,
                           const grpc::CallbackServerContext& context) const {
  if (!access_->enabled() || !absl::StartsWith(name, engine::AbslView(kModelPrefix))) return true;
  const absl::StatusOr<Principal> caller = CallerOf(*access_, *endpoints_, method, context);
  return caller.ok() && !caller->anonymous() && caller->MayUse(name.substr(kModelPrefix.size()));
}

bool HealthService::Knows(const std::string& name) const {
  return names_.find(name) != names_.end();
}

void HealthService::TellWatchers() {
  for (Watcher* watcher : watchers_) watcher->TellLocked();
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context, const HealthCheckRequest* request,
                                               Response* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  bool known = MayAsk(request->service(), "/grpc.health.v1.Health/Check", *context);
  if (known) {
    absl::MutexLock lock(&mutex_);
    known = Knows(request->service());
    if (known) response->set_status(status());
  }
  reactor->Finish(known ? grpc::Status::OK : ToGrpcStatus(MakeError(Reason::kUnknownService, "no such service")));
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(grpc::CallbackServerContext* context,
                                                                    const HealthCheckRequest* request) {
  const bool hidden = !MayAsk(request->service(), "/grpc.health.v1.Health/Watch", *context);
  auto* watcher = new Watcher(this, request->service(), hidden);
  absl::MutexLock lock(&mutex_);
  const bool full = watchers_.size() >= kMaxHealthWatchers;
  watchers_.insert(watcher);
  if (full) {
    watcher->FinishLocked(Overloaded(Reason::kTooManyRequests, "too many health watchers", "health.watch", 1000));
  } else {
    watcher->TellLocked();
  }
  return watcher;
}

}  // namespace dunlin::server
