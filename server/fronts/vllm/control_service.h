// SPDX-License-Identifier: Apache-2.0
// vllm.Control: what the server is, and what an operator or a router has it do. Most calls are answered at once, on
// gRPC's threads; PauseGeneration is answered when the engines have paused, Sleep and WakeUp when it is done.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/fronts/vllm/sleep_calls.h"
#include "server/serving/core/serving_core.h"
#include "server/transport/zmq/event_publisher.h"
#include "vllm/control.grpc.pb.h"

namespace dunlin::server {

struct VllmControlSources {
  // Ends the caller's generations of this id.
  std::function<void(const std::string& request_id, const Principal& caller)> abort;
  std::string version;              // of the server
  std::function<void()> shut_down;  // what SIGTERM does; null: nobody can ask for that
  // Where the KV events of a model are published, if they are; null: of none.
  std::function<std::optional<EventPublisherOptions>(const std::string& model)> kv_event_source;
};

class VllmControlService final : public ::vllm::Control::Service {
 public:
  // core outlives the service.
  VllmControlService(ServingCore* core, VllmControlSources sources);

  ServingCore* core() const { return core_; }
  const VllmControlSources& sources() const { return sources_; }
  const std::string& instance_id() const { return instance_id_; }
  // Calls of ResumeGeneration so far: each ends the calls of PauseGeneration that still wait.
  std::atomic<uint64_t>& resumes() { return resumes_; }
  SleepingModels* sleeping() { return &sleeping_; }
  const SleepingModels* sleeping() const { return &sleeping_; }

 private:
  ServingCore* const core_;
  const VllmControlSources sources_;
  const std::string instance_id_;
  std::atomic<uint64_t> resumes_{0};
  SleepingModels sleeping_;
};

}  // namespace dunlin::server
