// SPDX-License-Identifier: Apache-2.0
#include "server/models/thread_demand.h"

#include <algorithm>

#include "kernels/api/device_kind.h"
#include "server/process/start_check.h"

namespace dunlin::server {
namespace {

// The main thread, the log's, the HTTP thread, the one that accepts gRPC's connections, the one that delivers, the
// watchdog and its supervisor, the loader, and that of the start, which ends after READY.
constexpr int kOwnThreads = 9;
// Of gRPC's timers and its executor one more each, under load.
constexpr int kLaterGrpcThreads = 2;
// Of a decoder: engine and masks, and the one that gives the KV pool memory or, later, compiles grammars. While the
// model loads, two readers of files stand for them.
constexpr int kModelThreads = 3;
constexpr int kEventThreads = 3;  // of a publisher: its own, and two of ZeroMQ
constexpr int kLeastDescriptors = 16;
constexpr int kModelDescriptors = 1;   // beyond the first model
constexpr int kEventDescriptors = 12;  // of a publisher: sockets, and what wakes ZeroMQ's threads

// Of a gRPC server: those of any process, and those that serve completion queues.
int GrpcServerThreads(int num_cpus) {
  return GrpcThreads(num_cpus) + std::clamp(num_cpus / 2, 2, 16) + kLaterGrpcThreads;
}

// Requests load the others, not the start.
bool LoadedAtStart(const ModelSettings& model) {
  return model.idle_unload_s == 0;
}

// Of the CPU device, which a model may come to have where its device is "auto".
int ComputeThreads(const Config& config, int usable_cpus) {
  if (config.device.num_threads > 0) return config.device.num_threads;
  const auto on_cpu = [](const ModelSettings& m) { return m.device != Name(kernels::DeviceKind::kCuda); };
  return std::any_of(config.models.begin(), config.models.end(), on_cpu) ? usable_cpus : 0;
}

}  // namespace

ThreadDemand ThreadsOf(const Config& config, const HostCpus& cpus) {
  ThreadDemand demand;
  demand.process = kOwnThreads + GrpcServerThreads(cpus.machine) + config.text_threads;
  if (!config.tracing.otlp_endpoint.empty()) ++demand.process;
  // The caller of a compute pool is one of its threads. A divided model's ranks share them, one caller each.
  demand.process += std::max(0, ComputeThreads(config, cpus.usable) - 1);
  for (const ModelSettings& model : config.models) {
    if (!LoadedAtStart(model)) continue;
    demand.models += kModelThreads + model.source.num_ranks - 1;
    if (!model.kv_events.endpoint.empty()) demand.models += kEventThreads;
  }
  return demand;
}

int DescriptorsOf(const Config& config) {
  int count = kLeastDescriptors - kModelDescriptors;
  for (const ModelSettings& model : config.models) {
    if (!LoadedAtStart(model)) continue;
    count += kModelDescriptors;
    if (!model.kv_events.endpoint.empty()) count += kEventDescriptors;
  }
  return std::max(count, kLeastDescriptors);
}

}  // namespace dunlin::server
