// SPDX-License-Identifier: Apache-2.0
// What the service tells of a model and its load: GetModelInfo, GetServerInfo, GetLoads. Any thread.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/models/served_model.h"
#include "server/serving/core/serving_core.h"
#include "smg/vllm_engine.pb.h"

namespace dunlin::server {

// name: of the model as its requests name it.
::vllm::grpc::engine::GetModelInfoResponse ModelInfoOf(const ServedModel& model, const std::string& name);

// started: when the service was made.
::vllm::grpc::engine::GetServerInfoResponse ServerInfoOf(const ServedModel& model, const ServingCore& core,
                                                         absl::Time started);

// Everything but gen_throughput.
::vllm::grpc::engine::SchedulerLoad LoadOf(const ServedModel& model, const ServingCore& core);

// Generated tokens per second between two calls.
class ThroughputMeter {
 public:
  // total: tokens generated since start. 0 for the first call.
  double Update(uint64_t total, engine::TimeNs now);

 private:
  absl::Mutex mutex_;  // guards what follows
  uint64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
  engine::TimeNs at_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: never
};

}  // namespace dunlin::server
