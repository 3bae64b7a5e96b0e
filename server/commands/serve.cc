// SPDX-License-Identifier: Apache-2.0
// `dunlin serve`: reads the config, opens devices, loads models, opens ports and prints READY; then waits for signals
// and drains on a stop signal.
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "server/commands/command.h"
#include "server/config/config.h"
#include "server/config/reload.h"
#include "server/edge.h"
#include "server/metrics/server_metrics.h"
#include "server/models/devices.h"
#include "server/models/heartbeat.h"
#include "server/models/loader.h"
#include "server/models/repository.h"
#include "server/monotonic_clock.h"
#include "server/process/logging.h"
#include "server/process/service_notifier.h"
#include "server/process/signals.h"
#include "server/serving/observers.h"
#include "server/transport/http/http_server.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kStallLimit = engine::TimeNs{10} * 1000000000;
constexpr absl::Duration kPollPeriod = absl::Milliseconds(100);
// After a device failure: time for streams to deliver their status. Together with the watchdog period and the poll
// period, the process still ends within a second.
constexpr absl::Duration kFailedGrace = absl::Milliseconds(500);

// Everything that a running server owns, in order of construction.
struct Server {
  explicit Server(const Config& config)
      : observer(&log, &metrics), devices(config.device), heartbeat(&MonotonicNs, kStallLimit) {
    repository.Subscribe(&metrics);
    repository.Subscribe(&heartbeat);
  }

  RequestLog log;
  ServerMetrics metrics;
  ObserverPair observer;
  Devices devices;  // shared by all models
  Heartbeat heartbeat;
  ModelRepository repository;
  std::atomic<bool> ready{false};
  ServiceNotifier notifier;
  Edge edge;
  std::unique_ptr<HttpServer> http;  // started before the edge; destroyed first, because it reads all of the above
};

absl::Status LoadModels(const Config& config, Server* server) {
  for (const ModelSettings& settings : config.models) {
    const absl::StatusOr<kernels::Device*> device = server->devices.For(settings);
    if (!device.ok()) return device.status();
    auto model = LoadModel(settings, *device, server->metrics.AddModel(settings.name));
    if (!model.ok()) return model.status();
    if (absl::Status status = server->repository.Add(*std::move(model)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

HttpSources Sources(Server* server) {
  return {[server] { return server->metrics.Render(); }, [server] { return server->heartbeat.sick_reason(); },
          [server] { return server->ready ? std::string() : std::string("loading or draining"); }};
}

void WarnIfPublic(const char* key, const std::string& address) {
  if (absl::StartsWith(address, "127.") || absl::StartsWith(address, "localhost:") ||
      absl::StartsWith(address, "[::1]:")) {
    return;
  }
  spdlog::warn("{} is {}: reachable from other machines without TLS or authentication", key, address);
}

// Opens the gRPC port and announces both. The HTTP port is already open, so that probes work while models load.
absl::Status OpenPorts(const Config& config, Server* server) {
  EdgeOptions options;
  options.serving.text_threads = config.text_threads;
  if (config.reflection != "auto") options.reflection = config.reflection == "on";
  auto port = server->edge.Start(config.grpc_address, config.limits, &server->repository, &server->observer, options);
  if (!port.ok()) return port.status();
  WarnIfPublic("listen.grpc", config.grpc_address);
  WarnIfPublic("listen.http", config.http_address);
  server->metrics.WatchEdge([server] {
    const AdmissionStats stats = server->edge.admission_stats();
    return EdgeSnapshot{server->ready, stats.requests, stats.queued_bytes};
  });
  server->edge.SetServing(true);
  server->ready = true;
  const std::string host = config.grpc_address.substr(0, config.grpc_address.rfind(':'));
  std::cout << "READY grpc=" << host << ":" << *port << " http=" << server->http->bound_address() << std::endl;
  server->notifier.Ready();
  return absl::OkStatus();
}

// Sends the service manager's watchdog ping. Without pings the manager restarts the process, which covers both a
// stalled engine and a hang of this thread.
void BeatIfHealthy(Server* server) {
  if (server->heartbeat.sick_reason().empty()) server->notifier.Beat(MonotonicNs());
}

// Lets calls in flight finish within the time limit. A second stop signal ends the process immediately.
int Drain(int64_t timeout_ms, Server* server) {
  spdlog::info("stopping: draining for at most {} ms", timeout_ms);
  server->ready = false;
  server->notifier.Stopping();
  server->edge.StartDraining();
  std::atomic<bool> done{false};
  std::thread drainer([&] {
    server->edge.Shutdown(absl::Now() + absl::Milliseconds(timeout_ms));
    done = true;
  });
  while (!done) {
    BeatIfHealthy(server);
    if (WaitForRequest(kPollPeriod) == SignalRequest::kStop) {
      spdlog::warn("second stop signal: exiting immediately");
      std::_Exit(kExitFailed);
    }
  }
  drainer.join();
  spdlog::info("stopped");
  return kExitOk;
}

// This process cannot use a failed device again: it exits, and a supervisor restarts it. The engine has ended its
// requests with UNAVAILABLE; the grace period lets their streams deliver that status. The exit does not wait for
// Shutdown, which hangs if another engine's device does.
[[noreturn]] void EndFailed(Server* server) {
  spdlog::error("{}; exiting", server->heartbeat.sick_reason());
  server->ready = false;
  server->edge.StartDraining();
  std::thread([server] {
    server->edge.Shutdown(absl::Now() + kFailedGrace);
    std::_Exit(kExitDeviceFailed);
  }).detach();
  absl::SleepFor(kFailedGrace);
  std::_Exit(kExitDeviceFailed);
}

// The config file and the --set overrides on top of it.
struct ConfigSource {
  std::string path;
  std::vector<std::string> overrides;
};

// A config with errors changes nothing.
void Reload(const ConfigSource& source, Config* config) {
  const absl::StatusOr<Config> loaded = LoadConfig(source.path, source.overrides);
  if (!loaded.ok()) {
    spdlog::error("reload: failed, config unchanged: {}", std::string(loaded.status().message()));
    return;
  }
  const ReloadResult result = TakeReloadable(*config, *loaded);
  *config = result.config;
  SetLogLevel(config->log_level);
  spdlog::info("reload: applied: {}", result.taken.empty() ? "nothing" : absl::StrJoin(result.taken, ", "));
  if (!result.left_out.empty()) spdlog::warn("reload: restart required for: {}", absl::StrJoin(result.left_out, ", "));
}

int WaitAndStop(const ConfigSource& source, Config config, Server* server) {
  SignalRequest request;
  while ((request = WaitForRequest(kPollPeriod)) != SignalRequest::kStop) {
    if (server->heartbeat.failed()) EndFailed(server);
    BeatIfHealthy(server);
    server->repository.FreeUnleased();
    if (request != SignalRequest::kReload) continue;
    server->notifier.Reloading(MonotonicNs());
    Reload(source, &config);
    server->notifier.Ready();
  }
  return Drain(config.drain_timeout_ms, server);
}

int Fail(const absl::Status& status) {
  spdlog::error("cannot start: {}", std::string(status.message()));
  return kExitFailed;
}

int RunServe(const ConfigSource& source) {
  BlockSignals();
  SetUpLogging("info", "text");
  const absl::StatusOr<Config> config = LoadConfig(source.path, source.overrides);
  if (!config.ok()) return Fail(config.status());
  SetUpLogging(config->log_level, config->log_format);
  Server server(*config);
  const ConnectionLimits http_limits = {config->max_http_connections, config->max_http_connections_per_address};
  auto http = HttpServer::Start(config->http_address, http_limits, Sources(&server));
  if (!http.ok()) return Fail(http.status());
  server.http = *std::move(http);
  if (absl::Status status = LoadModels(*config, &server); !status.ok()) return Fail(status);
  server.heartbeat.Start();
  if (absl::Status status = OpenPorts(*config, &server); !status.ok()) return Fail(status);
  return WaitAndStop(source, *config, &server);
}

}  // namespace

std::function<int()> SetUpServe(CLI::App* subcommand) {
  auto options = std::make_shared<ConfigSource>();
  subcommand->add_option("--config", options->path, "The config file (JSON, comments allowed)")->required();
  subcommand->add_option("--set", options->overrides, "Override one key: models.0.path=DIR; repeatable")
      ->allow_extra_args(false);
  return [options] { return RunServe(*options); };
}

}  // namespace dunlin::server
