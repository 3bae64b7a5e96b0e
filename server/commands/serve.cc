// `dunlin serve`: config, devices, models, ports, READY; then waits for a signal and drains.
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
#include "absl/time/clock.h"
#include "server/commands/command.h"
#include "server/config/config.h"
#include "server/grpc/grpc_server.h"
#include "server/heartbeat.h"
#include "server/http/http_server.h"
#include "server/load_models.h"
#include "server/logging.h"
#include "server/metrics/server_metrics.h"
#include "server/monotonic_clock.h"
#include "server/observers.h"
#include "server/signals.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kStallLimit = engine::TimeNs{10} * 1000000000;
constexpr absl::Duration kPollPeriod = absl::Milliseconds(100);

// Everything a running server owns, in the order it is built; taken down in the opposite one.
struct Server {
  explicit Server(const Config& config)
      : metrics(ModelNames(config)), observer(&log, &metrics), heartbeat(&MonotonicNs, kStallLimit) {}

  static std::vector<std::string> ModelNames(const Config& config) {
    std::vector<std::string> names;
    for (const ModelSettings& model : config.models) names.push_back(model.name);
    return names;
  }

  RequestLog log;
  ServerMetrics metrics;
  ObserverPair observer;
  std::vector<std::unique_ptr<kernels::Device>> devices;  // one of a kind, shared by all models
  ModelRegistry registry;
  Heartbeat heartbeat;
  std::atomic<bool> ready{false};
  std::unique_ptr<HttpServer> http;
  GrpcServer grpc;
};

absl::StatusOr<kernels::Device*> DeviceFor(const ModelSettings& settings, const Config& config, Server* server) {
  const kernels::DeviceKind kind = DeviceKindOf(settings);
  for (const auto& device : server->devices) {
    if (device->ops->kind == kind) return device.get();
  }
  auto device = OpenModelDevice(settings, config.device);
  if (!device.ok()) return device.status();
  spdlog::info("device {}", (*device)->description);
  server->devices.push_back(*std::move(device));
  return server->devices.back().get();
}

absl::Status LoadModels(const Config& config, Server* server) {
  for (const ModelSettings& settings : config.models) {
    const absl::StatusOr<kernels::Device*> device = DeviceFor(settings, config, server);
    if (!device.ok()) return device.status();
    if (absl::Status status = LoadModel(settings, *device, &server->metrics, &server->registry); !status.ok()) {
      return status;
    }
    server->heartbeat.Watch(settings.name, server->registry.models().back()->any_engine());
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
  spdlog::warn("{} is {}: reachable from other machines, without TLS or authentication", key, address);
}

// Opens both ports and announces them. The HTTP port comes first, so that probes see a server that is loading.
absl::Status OpenPorts(const Config& config, Server* server) {
  GrpcServerOptions options;
  options.text_threads = config.text_threads;
  if (config.reflection != "auto") options.reflection = config.reflection == "on";
  auto port = server->grpc.Start(config.grpc_address, config.limits, server->registry, &server->observer, options);
  if (!port.ok()) return port.status();
  WarnIfPublic("listen.grpc", config.grpc_address);
  WarnIfPublic("listen.http", config.http_address);
  server->grpc.SetServing(true);
  server->ready = true;
  const std::string host = config.grpc_address.substr(0, config.grpc_address.rfind(':'));
  std::cout << "READY grpc=" << host << ":" << *port << " http=" << server->http->bound_address() << std::endl;
  return absl::OkStatus();
}

// Lets what runs finish within the limit. A second signal ends the process at once.
int Drain(int64_t timeout_ms, Server* server) {
  spdlog::info("stopping: draining for at most {} ms", timeout_ms);
  server->ready = false;
  server->grpc.StartDraining();
  std::atomic<bool> done{false};
  std::thread drainer([&] {
    server->grpc.Shutdown(absl::Now() + absl::Milliseconds(timeout_ms));
    done = true;
  });
  while (!done) {
    if (WaitForStopSignal(kPollPeriod)) {
      spdlog::warn("second signal: ending now");
      std::_Exit(kExitFailed);
    }
  }
  drainer.join();
  spdlog::info("stopped");
  return kExitOk;
}

int WaitAndStop(const Config& config, Server* server) {
  while (!WaitForStopSignal(kPollPeriod)) {
    if (!server->heartbeat.failed()) continue;
    // The context of a failed device cannot be used again: end, and let a supervisor start afresh.
    spdlog::error("{}; ending", server->heartbeat.sick_reason());
    server->grpc.StartDraining();
    std::_Exit(kExitDeviceFailed);
  }
  return Drain(config.drain_timeout_ms, server);
}

int Fail(const absl::Status& status) {
  spdlog::error("cannot start: {}", std::string(status.message()));
  return kExitFailed;
}

int RunServe(const std::string& config_path, const std::vector<std::string>& overrides) {
  BlockStopSignals();
  SetUpLogging("info", "text");
  const absl::StatusOr<Config> config = LoadConfig(config_path, overrides);
  if (!config.ok()) return Fail(config.status());
  SetUpLogging(config->log_level, config->log_format);
  Server server(*config);
  auto http = HttpServer::Start(config->http_address, config->max_http_connections, Sources(&server));
  if (!http.ok()) return Fail(http.status());
  server.http = *std::move(http);
  if (absl::Status status = LoadModels(*config, &server); !status.ok()) return Fail(status);
  server.heartbeat.Start();
  if (absl::Status status = OpenPorts(*config, &server); !status.ok()) return Fail(status);
  return WaitAndStop(*config, &server);
}

}  // namespace

std::function<int()> SetUpServe(CLI::App* subcommand) {
  struct Options {
    std::string config;
    std::vector<std::string> overrides;
  };
  auto options = std::make_shared<Options>();
  subcommand->add_option("--config", options->config, "The config file (JSON, comments allowed)")->required();
  subcommand->add_option("--set", options->overrides, "Override one key: models.0.path=DIR; may be given several times")
      ->allow_extra_args(false);
  return [options] { return RunServe(options->config, options->overrides); };
}

}  // namespace dunlin::server
