// SPDX-License-Identifier: Apache-2.0
// Sleep and WakeUp of vllm.Control: the models that generate are unloaded, so that their memory is free, and loaded
// again from their files. Both need a key with Permission::kAdmin, or access.admin_without_keys. Any thread.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/fronts/vllm/control_call.h"

namespace dunlin::server {

// The models that sleep.
class SleepingModels {
 public:
  void Add(const std::string& model);
  void Remove(const std::string& model);
  std::set<std::string> names() const;

 private:
  mutable absl::Mutex mutex_;  // guards names_
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

// Pauses the models by the request's mode, ABORT or WAIT; ends when they have paused and take no more requests. Those
// that came during the pause run before the memory is freed. Errors: INVALID_ARGUMENT (mode, level); as ChangeModel's.
grpc::ServerUnaryReactor* StartSleep(const VllmControlCall& call, const grpc::ByteBuffer& message,
                                     grpc::ByteBuffer* response);
// Ends when every model that sleeps is served, or with the first error. The tags "weights" and "kv_cache" are taken:
// both wake all.
grpc::ServerUnaryReactor* StartWakeUp(const VllmControlCall& call, const grpc::ByteBuffer& message,
                                      grpc::ByteBuffer* response);
// Whether one of those that were sent to sleep is not served.
bool AnySleeps(const VllmControlService& service);

}  // namespace dunlin::server
