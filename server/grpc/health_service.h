// grpc.health.v1.Health. gRPC's own default service says SERVING for "" from the start; this one knows every name from
// its construction and says NOT_SERVING for all of them until told otherwise.
// Thread rule: any thread. mutex_ is held only to read and write statuses and to start a write, never to wait.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace dunlin::server {

inline constexpr size_t kMaxHealthWatchers = 1024;  // beyond them Watch is refused with RESOURCE_EXHAUSTED

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  // names: the services that exist; "" is added.
  explicit HealthService(const std::vector<std::string>& names);

  // For every name. No effect after Shutdown.
  void SetServing(bool serving);
  // NOT_SERVING for good; watchers are told.
  void StopServing();
  // StopServing, and ends every watch with UNAVAILABLE, so that the server can go down.
  void Shutdown();

 private:
  class Watcher;
  using Response = grpc::health::v1::HealthCheckResponse;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request, Response* response) override;
  grpc::ServerWriteReactor<Response>* Watch(grpc::CallbackServerContext* context,
                                            const grpc::health::v1::HealthCheckRequest* request) override;
  void TellWatchers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Response::ServingStatus status() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::string> names_;  // sorted, with ""
  absl::Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);  // each from Watch to its OnDone
};

}  // namespace dunlin::server
