// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/vllm/sleep_calls.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/fronts/vllm/control_service.h"
#include "server/fronts/vllm/server_info.h"
#include "server/serving/record/errors.h"
#include "server/serving/resolve/model_changes.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {
namespace {

constexpr std::chrono::milliseconds kSleepPeriod{10};  // how often a call that waits for a pause looks
constexpr uint32_t kMaxSleepLevel = 2;

// The first error of several changes, once all are done.
class Changes {
 public:
  Changes(size_t count, ModelLifecycle::Done done) : left_(count), done_(std::move(done)) {}
  void OnDone(const absl::Status& status) {
    bool last = false;
    absl::Status result;
    {
      absl::MutexLock lock(&mutex_);
      result_.Update(status);
      last = --left_ == 0;
      result = result_;
    }
    if (last) done_(result);
  }

 private:
  absl::Mutex mutex_;  // guards both
  size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  const ModelLifecycle::Done done_;
};

// Owns itself until OnDone.
class SleepCall final : public grpc::ServerUnaryReactor {
 public:
  SleepCall(const VllmControlCall& call, engine::PauseMode mode)
      : service_(call.service),
        context_(call.context),
        caller_(call.caller),
        models_(GeneratingModels(*call.service->core(), call.caller)) {
    for (const ModelLease& model : models_) model->engine->Pause(mode);
    Look();
  }

 private:
  void OnDone() override { delete this; }

  void Look() {
    const auto paused = [](const ModelLease& model) { return model->engine->stats().paused; };
    if (context_->IsCancelled()) return End(absl::CancelledError());
    if (std::all_of(models_.begin(), models_.end(), paused)) return UnloadAll();
    alarm_.Set(std::chrono::system_clock::now() + kSleepPeriod, [this](bool) { Look(); });
  }

  void UnloadAll() {
    if (models_.empty()) return End(absl::OkStatus());
    const auto changes = std::make_shared<Changes>(models_.size(), [this](const absl::Status& status) { End(status); });
    std::vector<std::string> names;
    for (const ModelLease& model : models_) names.push_back(model->name);
    for (const std::string& name : names) {
      ChangeModel(*service_->core(), caller_, name, &ModelLifecycle::Unload,
                  [changes, name, service = service_](const absl::Status& status) {
                    if (status.ok()) service->sleeping()->Add(name);
                    changes->OnDone(status);
                  });
    }
  }

  void End(const absl::Status& status) {
    for (const ModelLease& model : models_) model->engine->Resume();
    models_.clear();
    const grpc::Status end = ToGrpcStatus(status);
    EchoRequestId(end, context_);
    Finish(end);
  }

  VllmControlService* const service_;
  grpc::CallbackServerContext* const context_;
  const Principal caller_;
  std::vector<ModelLease> models_;
  grpc::Alarm alarm_;
};

absl::Status CheckSleep(const VllmControlCall& call, const ::vllm::SleepRequest& request) {
  if (request.has_level() && (request.level() < 1 || request.level() > kMaxSleepLevel)) {
    return InvalidField("level", absl::StrCat("is ", request.level()), "1 or 2, which are the same");
  }
  if (request.mode() > ::vllm::PAUSE_MODE_WAIT) {
    return InvalidField("mode", absl::StrCat("is ", static_cast<int>(request.mode())),
                        "PAUSE_MODE_ABORT or PAUSE_MODE_WAIT");
  }
  return CheckMayChangeModels(*call.service->core());
}

}  // namespace

void SleepingModels::Add(const std::string& model) {
  absl::MutexLock lock(&mutex_);
  names_.insert(model);
}

void SleepingModels::Remove(const std::string& model) {
  absl::MutexLock lock(&mutex_);
  names_.erase(model);
}

std::set<std::string> SleepingModels::names() const {
  absl::MutexLock lock(&mutex_);
  return names_;
}

grpc::ServerUnaryReactor* StartSleep(const VllmControlCall& call, const grpc::ByteBuffer& message,
                                     grpc::ByteBuffer* response) {
  ::vllm::SleepRequest request;
  absl::Status status = ParseWire(message, &request);
  if (status.ok()) status = CheckSleep(call, request);
  if (!status.ok()) return Finished(call.context, status);
  *response = SerializeWire(::vllm::SleepResponse());
  const bool wait = request.mode() == ::vllm::PAUSE_MODE_WAIT;
  return new SleepCall(call, wait ? engine::PauseMode::kWait : engine::PauseMode::kAbort);
}

grpc::ServerUnaryReactor* StartWakeUp(const VllmControlCall& call, const grpc::ByteBuffer& message,
                                      grpc::ByteBuffer* response) {
  ::vllm::WakeUpRequest request;
  absl::Status status = ParseWire(message, &request);
  for (const std::string& tag : request.tags()) {
    if (tag == "weights" || tag == "kv_cache") continue;
    status.Update(InvalidField("tags", UnknownName(tag, "tag"), "weights and kv_cache"));
  }
  if (status.ok()) status = CheckMayChangeModels(*call.service->core());
  *response = SerializeWire(::vllm::WakeUpResponse());
  const std::set<std::string> names = call.service->sleeping()->names();
  if (!status.ok() || names.empty()) return Finished(call.context, status);
  grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
  const auto changes = std::make_shared<Changes>(
      names.size(),
      [reactor, context = call.context](const absl::Status& done) { FinishCall(reactor, context, done); });
  for (const std::string& name : names) {
    ChangeModel(*call.service->core(), call.caller, name, &ModelLifecycle::Load,
                [changes, name, service = call.service](const absl::Status& done) {
                  if (done.ok()) service->sleeping()->Remove(name);
                  changes->OnDone(done);
                });
  }
  return reactor;
}

bool AnySleeps(const VllmControlService& service) {
  const std::set<std::string> names = service.sleeping()->names();
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return service.core()->Lease(name) == nullptr; });
}

}  // namespace dunlin::server
