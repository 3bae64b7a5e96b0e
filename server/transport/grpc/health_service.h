// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health: the status of the server (""), of every service by its name, and of every model in the
// repository as "model/NAME". gRPC's default service reports SERVING for "" from the start; this one reports
// NOT_SERVING for every name until SetServing(true). Thread rule: any thread. mutex_ is held only to read and write
// statuses and to start a write, never to wait.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/models/repository.h"

namespace dunlin::server {

inline constexpr size_t kMaxHealthWatchers = 1024;  // further ones are refused with RESOURCE_EXHAUSTED

class HealthService final : public grpc::health::v1::Health::CallbackService, public RepositoryListener {
 public:
  // names: the services; "" is added. access and endpoints outlive the service.
  HealthService(const std::vector<std::string>& names, const AccessControl* access, const EndpointTable* endpoints);

  // A watcher of an unknown model gets SERVICE_UNKNOWN, and the model's status once it is added.
  void OnModelAdded(const ModelLease& model) override;
  void OnModelRemoved(const std::string& name) override;
  // Nothing changes for watchers.
  void OnModelReplaced(const ModelLease& /*model*/) override {}

  // For every name. No effect after StopServing.
  void SetServing(bool serving);
  // From now on every status is NOT_SERVING; watchers are notified.
  void StopServing();
  // StopServing, and ends every watch with UNAVAILABLE, so that the server can shut down.
  void Shutdown();

 private:
  class Watcher;
  using Response = grpc::health::v1::HealthCheckResponse;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request, Response* response) override;
  grpc::ServerWriteReactor<Response>* Watch(grpc::CallbackServerContext* context,
                                            const grpc::health::v1::HealthCheckRequest* request) override;
  void TellWatchers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A model's name is as if there were none for a caller who may not use the model.
  bool MayAsk(const std::string& name, const char* method, const grpc::CallbackServerContext& context) const;
  bool Knows(const std::string& name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Response::ServingStatus status() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccessControl* const access_;
  const EndpointTable* const endpoints_;
  absl::Mutex mutex_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);  // "", services, models
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);  // each from Watch to its OnDone
};

}  // namespace dunlin::server
