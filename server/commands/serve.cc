// SPDX-License-Identifier: Apache-2.0
// `dunlin serve`: reads the config, opens ports, opens devices, loads models and prints READY; then waits for signals
// and drains on a stop signal.
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/api/device.h"
#include "server/access/listen_address.h"
#include "server/commands/command.h"
#include "server/commands/serve_certificates.h"
#include "server/commands/serve_options.h"
#include "server/commands/serve_repository.h"
#include "server/commands/serve_server.h"
#include "server/commands/serve_stop.h"
#include "server/commands/serve_tracing.h"
#include "server/config/config.h"
#include "server/config/reload.h"
#include "server/models/loader.h"
#include "server/models/memory_budget.h"
#include "server/models/thread_demand.h"
#include "server/observe/logging/logging.h"
#include "server/observe/metrics/process_stats.h"
#include "server/process/core_files.h"
#include "server/process/free_memory.h"
#include "server/process/signals.h"
#include "server/process/start_check.h"
#include "server/process/version.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(100);
constexpr absl::Duration kLastFlush = absl::Milliseconds(500);

absl::Status LoadModels(Config config, size_t request_bytes, const std::atomic<bool>& stop, Server* server) {
  config.memory.request_bytes = request_bytes;
  return server->lifecycle.LoadAll(config, stop);
}

HttpSources Sources(Server* server) {
  return {[server] { return server->metrics.Render(); }, [server] { return server->watchdog.unhealthy_reason(); },
          [server] { return server->unready_reason(); }};
}

EdgeHttpOptions HttpOptions(const Config& config, Server* server) {
  EdgeHttpOptions options;
  options.address = config.http_address;
  options.sources = Sources(server);
  options.connections = {config.max_http_connections, config.max_http_connections_per_address};
  options.timeouts.read = std::chrono::milliseconds(config.http_read_timeout_ms);
  options.timeouts.idle = std::chrono::milliseconds(config.http_idle_timeout_ms);
  options.timeouts.stream_idle = std::chrono::milliseconds(config.sse_keepalive_ms);
  options.cors_origins = absl::StrSplit(config.http_cors_origins, ' ', absl::SkipEmpty());
  options.host_names = absl::StrSplit(config.http_host_names, ' ', absl::SkipEmpty());
  options.on_response = [server](std::string_view route, int status) { server->metrics.OnHttpResponse(route, status); };
  return options;
}

// CheckExposure has refused it otherwise.
void WarnIfUnprotected(const char* key, const std::string& address, const Server& server) {
  const bool has_tls = server.certificates != nullptr;
  if (IsLoopback(address) || (has_tls && server.keys.has_value())) return;
  const char* missing = "TLS and keys";
  if (has_tls) missing = "keys";
  if (server.keys.has_value()) missing = "TLS";
  spdlog::warn("{} is {}: reachable from other machines without {}; access.behind_proxy says that a proxy does it", key,
               address, missing);
}

EdgeSnapshot SnapshotOf(const Server& server) {
  const AdmissionStats stats = server.edge.admission_stats();
  EdgeSnapshot snapshot;
  snapshot.ready = server.unready_reason().empty();
  snapshot.requests_in_flight = stats.requests;
  snapshot.queued_bytes = stats.queued_bytes;
  snapshot.access = server.access.stats();
  snapshot.connections_cut = server.edge.num_connections_cut();
  if (server.certificates == nullptr) return snapshot;
  const CertificateStats certificates = server.certificates->stats();
  snapshot.certificate_expires_in_s = absl::ToDoubleSeconds(certificates.expires - absl::Now());
  snapshot.certificate_reloads = certificates.reloads;
  snapshot.certificate_reload_failures = certificates.failures;
  return snapshot;
}

// Before models load, so that a port that is taken ends the start at once and probes are answered meanwhile. Requests
// are refused until StartServing. Returns the two addresses, as READY prints them.
absl::StatusOr<std::string> OpenPorts(const Config& config, const Limits& limits, Server* server) {
  absl::StatusOr<std::unique_ptr<CertificateStore>> certificates = OpenCertificates(config.tls);
  if (!certificates.ok()) return certificates.status();
  server->certificates = *std::move(certificates);
  EdgeOptions options;
  options.certificates = server->certificates.get();
  options.http = HttpOptions(config, server);
  options.fronts = FrontSettings(config.values);
  options.version = kVersion;
  const std::string& variant = config.device.cpu_variant;
  options.cpu_variant = variant.empty() ? kernels::AvailableCpuVariants().front() : variant;
  options.shut_down = [] { kill(getpid(), SIGTERM); };
  options.serving.profile_aliases = config.profile_aliases;
  options.serving.text_threads = config.text_threads;
  options.serving.access = &server->access;
  options.serving.lifecycle = &server->lifecycle;
  options.rpcs = server->metrics.rpcs();
  options.on_cut = [server](const std::string& address, const char* reason) { server->cuts.OnCut(address, reason); };
  options.serving.traces = server->spans != nullptr;
  if (config.reflection != "auto") options.reflection = config.reflection == "on";
  auto port = server->edge.Start(config.grpc_address, limits, &server->repository, &server->observer, options);
  if (!port.ok()) return port.status();
  WarnIfUnprotected("listen.grpc", config.grpc_address, *server);
  WarnIfUnprotected("listen.http", config.http_address, *server);
  server->metrics.WatchEdge([server] { return SnapshotOf(*server); });
  const std::string host = config.grpc_address.substr(0, config.grpc_address.rfind(':'));
  const std::string grpc = IsUnixSocket(config.grpc_address) ? config.grpc_address : absl::StrCat(host, ":", *port);
  return absl::StrCat("grpc=", grpc, " http=", server->edge.http_address());
}

bool StrangersMayReach(const Config& config) {
  return config.behind_proxy || !IsLoopback(config.grpc_address) || !IsLoopback(config.http_address);
}

// Before the ports open. Keys then come with calls, so that no core file may be left.
absl::Status ReadKeys(const Config& config, Server* server) {
  if (StrangersMayReach(config) && !config.admin_without_keys) server->access.ForbidAdminWithoutKeys();
  if (config.admin_without_keys) server->access.AllowAdminWithoutKeys();
  if (config.keys_file.empty()) return absl::OkStatus();
  ForbidCoreFiles();
  server->keys.emplace(config.keys_file, &server->access);
  const std::optional<absl::Status> read = server->keys->ReadIfChanged();
  return read.value_or(absl::OkStatus());
}

// A file that is broken changes nothing.
void FollowKeys(Server* server) {
  if (!server->keys.has_value()) return;
  const std::optional<absl::Status> read = server->keys->ReadIfChanged();
  if (!read.has_value()) return;
  if (read->ok()) {
    spdlog::info("keys: {} now in force", server->access.stats().num_keys);
  } else {
    spdlog::error("keys: the {} of before stay in force: {}", server->access.stats().num_keys,
                  std::string(read->message()));
  }
}

void StartServing(const Config& config, const std::string& addresses, Server* server) {
  server->lifecycle.Start();
  server->edge.WatchWith(&server->watchdog);
  if (config.exit_after_ms > 0) {
    // The main thread may wait for what has stalled. A drain has a limit of its own.
    server->watchdog.CallAfterStall(config.exit_after_ms * 1'000'000, [server] {
      if (server->phase != Server::Phase::kDraining) EndStalled(server);
    });
  }
  server->watchdog.Start();
  server->edge.SetServing(true);
  server->phase = Server::Phase::kServing;
  std::cout << "READY " << addresses << std::endl;
  server->notifier.Ready();
}

// A config with errors changes nothing.
void Reload(const ServeOptions& options, Config* config, Server* server) {
  absl::StatusOr<Config> loaded = LoadServeConfig(options);
  if (loaded.ok() && !loaded->model_repository.empty()) loaded = WithRepository(*loaded, config->models);
  if (!loaded.ok()) {
    spdlog::error("reload: failed, config unchanged: {}", std::string(loaded.status().message()));
    return;
  }
  WarnOfLeftOut(config->left_out_of_repository, *loaded);
  const ReloadResult result = TakeReloadable(*config, *loaded);
  *config = result.config;
  SetLogLevel(config->log_level);
  server->lifecycle.Follow(config->models);
  spdlog::info("reload: applied: {}", result.taken.empty() ? "nothing" : absl::StrJoin(result.taken, ", "));
  if (!result.left_out.empty()) spdlog::warn("reload: restart required for: {}", absl::StrJoin(result.left_out, ", "));
}

// A folder that cannot be taken over changes nothing.
void FollowRepository(RepositoryWatch* watch, Config* config, Server* server) {
  const std::optional<absl::StatusOr<Config>> found = watch->Poll(*config);
  if (!found.has_value()) return;
  if (!found->ok()) {
    spdlog::error("model_repository: models unchanged: {}", std::string(found->status().message()));
    return;
  }
  WarnOfLeftOut(config->left_out_of_repository, **found);
  const ReloadResult result = TakeReloadable(*config, **found);
  *config = result.config;
  server->lifecycle.Follow(config->models, /*only_changed=*/true);
  if (!result.taken.empty()) spdlog::info("model_repository: changed: {}", absl::StrJoin(result.taken, ", "));
}

// What the watchdog has found takes effect: on Health and admission, and of a failed device on the process.
void ApplyHealth(Server* server) {
  const Watchdog::HealthReport report = server->watchdog.report();
  if (report.state == Watchdog::HealthReport::State::kFailed) EndFailed(server);
  server->edge.ApplyHealth(report);
  BeatIfHealthy(server);
}

int WaitAndStop(const ServeOptions& options, Config config, Server* server) {
  FreeMemory free_memory([] { return static_cast<size_t>(ResidentBytes()); }, [] { malloc_trim(0); });
  CertificateWatch certificates(server->certificates.get());
  RepositoryWatch repository;
  SignalRequest request;
  while ((request = WaitForRequest(kPollPeriod)) != SignalRequest::kStop) {
    ApplyHealth(server);
    FollowKeys(server);
    server->lifecycle.EndLateWaits(absl::Now());
    if (server->repository.FreeUnleased() > 0) malloc_trim(0);
    free_memory.Look(server->edge.admission_stats().requests == 0, MonotonicNs());
    certificates.Poll(absl::Now());
    FollowRepository(&repository, &config, server);
    if (request != SignalRequest::kReload) continue;
    server->notifier.Reloading(MonotonicNs());
    Reload(options, &config, server);
    certificates.ReadNow(absl::Now());
    server->notifier.Ready();
  }
  return Drain(config.drain_timeout_ms, server);
}

int Fail(const absl::Status& status) {
  spdlog::error("cannot start: {}", std::string(status.message()));
  return kExitFailed;
}

// What requests may take of what the machine leaves now. The plan of the models keeps to it, however much that is then.
absl::StatusOr<RequestMemory> PlanRequests(const Config& config) {
  const absl::StatusOr<MemoryBudget> budget = EmptyBudget(config, ReadHostFacts());
  if (!budget.ok()) return budget.status();
  return budget->requests;
}

absl::Status CheckStart(const Config& config) {
  const int threads = ThreadsOf(config, ReadHostFacts().cpus).total();
  return CheckThreadsAndDescriptors(threads, DescriptorsOf(config));
}

int Serve(const ServeOptions& options) {
  const absl::StatusOr<Config> config = LoadServeConfig(options);
  if (!config.ok()) return Fail(config.status());
  SetUpLogging(config->log_level, config->log_format);
  WarnOfLeftOut({}, *config);
  if (absl::Status check = CheckStart(*config); !check.ok()) return Fail(check);
  absl::StatusOr<std::unique_ptr<SpanExporter>> spans = OpenSpanExporter(config->tracing);
  if (!spans.ok()) return Fail(spans.status());
  Server server(*config, *std::move(spans));
  if (absl::Status read = ReadKeys(*config, &server); !read.ok()) return Fail(read);
  const absl::StatusOr<RequestMemory> requests = PlanRequests(*config);
  if (!requests.ok()) return Fail(requests.status());
  const absl::StatusOr<std::string> addresses = OpenPorts(*config, requests->limits, &server);
  if (!addresses.ok()) return Fail(addresses.status());
  spdlog::info("loading models; ports answer: {}", *addresses);
  const std::optional<absl::Status> loaded = LoadUnlessStopped(
      [&](const std::atomic<bool>& stop) { return LoadModels(*config, requests->total(), stop, &server); }, &server);
  if (!loaded.has_value()) return kExitOk;
  if (!loaded->ok()) return Fail(*loaded);
  StartServing(*config, *addresses, &server);
  return WaitAndStop(options, *config, &server);
}

int RunServe(const ServeOptions& options) {
  SetMallocThresholds();
  BlockSignals();
  // The log's queue takes a thread. Without a config: what any server has.
  if (absl::Status check = CheckStart(Config()); !check.ok()) {
    std::cerr << "cannot start: " << check.message() << "\n";
    return kExitFailed;
  }
  SetUpLogging("info", "text");
  const int status = Serve(options);
  FlushLog(kLastFlush);
  return status;
}

}  // namespace

std::function<int()> SetUpServe(CLI::App* subcommand) {
  auto options = std::make_shared<ServeOptions>();
  AddServeOptions(subcommand, options.get());
  return [options] { return RunServe(*options); };
}

}  // namespace dunlin::server
