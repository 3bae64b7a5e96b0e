// SPDX-License-Identifier: Apache-2.0
#include "server/commands/serve_stop.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/thread_name.h"
#include "server/commands/command.h"
#include "server/process/exit_timer.h"
#include "server/process/signals.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kStopPollPeriod = absl::Milliseconds(100);
constexpr absl::Duration kLoadPollPeriod = absl::Milliseconds(10);  // delays READY by half of it
constexpr absl::Duration kLoadStopLimit = absl::Milliseconds(800);
// Wrappers, timeout(1) among them, send one signal to their child and again to its process group.
constexpr absl::Duration kSameSignal = absl::Milliseconds(200);
constexpr absl::Duration kFlushLimit = absl::Milliseconds(200);
// After a drain's time: gRPC takes up to a second to close streams whose clients do not read. Then the main thread says
// that something is stuck and exits; the timer is for what hangs after that, or hangs the main thread.
constexpr absl::Duration kStuckAfter = absl::Milliseconds(1500);
constexpr absl::Duration kExitTimer = absl::Milliseconds(1800);
// Of the spans, once everything else has stopped: by then little of the drain's time may be left.
constexpr absl::Duration kSpanFlushMax = absl::Milliseconds(1000);
constexpr absl::Duration kSpanFlushMin = absl::Milliseconds(200);
// After a device failure: time for streams to deliver their status. Together with the watchdog period and the poll
// period, the process still ends within a second.
constexpr absl::Duration kFailedGrace = absl::Milliseconds(500);

[[noreturn]] void ExitNow(int status) {
  FlushLog(kFlushLimit);
  std::_Exit(status);
}

void FlushSpans(absl::Time drain_deadline, Server* server) {
  if (server->spans == nullptr) return;
  server->spans->Flush(std::clamp(drain_deadline - absl::Now(), kSpanFlushMin, kSpanFlushMax));
}

// Starts a thread that ends the server. Where the system has none left the calling thread does it, and a second stop
// signal, or what hangs, is the exit timer's.
std::thread RunBeside(const std::function<void()>& work) {
  try {
    return std::thread([work] {
      engine::NameThread("drainer");
      work();
    });
  } catch (const std::system_error& problem) {
    spdlog::warn("no thread to stop with: {}", problem.what());
    work();
    return {};
  }
}

}  // namespace

void BeatIfHealthy(Server* server) {
  if (server->watchdog.unhealthy_reason().empty()) server->notifier.Beat(MonotonicNs());
}

std::optional<absl::Status> LoadUnlessStopped(const std::function<absl::Status(const std::atomic<bool>& stop)>& load,
                                              Server* server) {
  std::atomic<bool> stop{false};
  std::atomic<bool> done{false};
  absl::Status status;
  std::thread loader([&] {
    engine::NameThread("loader");
    try {
      status = load(stop);
    } catch (const std::exception& problem) {  // no memory, no thread
      status = absl::InternalError(problem.what());
    }
    done = true;
  });
  bool reload = false;
  absl::Time stopped;
  while (!done) {
    const SignalRequest request = WaitForRequest(kLoadPollPeriod);
    reload = reload || request == SignalRequest::kReload;
    if (request != SignalRequest::kStop) continue;
    if (stop && absl::Now() < stopped + kSameSignal) continue;
    if (stop) ExitNow(kExitFailed);
    stopped = absl::Now();
    stop = true;
    ExitAfter(kLoadStopLimit, kExitOk);
    server->phase = Server::Phase::kDraining;
    server->notifier.Stopping();
    spdlog::info("stopping: loading is given up");
  }
  loader.join();
  if (stop) return std::nullopt;
  if (reload) kill(getpid(), SIGHUP);  // for whoever waits for signals next
  return status;
}

int Drain(int64_t timeout_ms, Server* server) {
  const absl::Duration timeout = absl::Milliseconds(timeout_ms);
  ExitAfter(timeout + kExitTimer, kExitStuck);
  const absl::Time begun = absl::Now();
  const absl::Time deadline = begun + timeout;
  spdlog::info("stopping: draining for at most {} ms", timeout_ms);
  server->phase = Server::Phase::kDraining;
  server->notifier.Stopping();
  server->edge.StartDraining();
  std::atomic<bool> done{false};
  std::thread drainer = RunBeside([&] {
    server->lifecycle.Stop();
    server->edge.Shutdown(deadline);
    done = true;
  });
  while (!done) {
    BeatIfHealthy(server);
    if (WaitForRequest(kStopPollPeriod) == SignalRequest::kStop && absl::Now() > begun + kSameSignal) {
      spdlog::warn("second stop signal: exiting immediately");
      ExitNow(kExitFailed);
    }
    if (!done && absl::Now() > deadline + kStuckAfter) {
      spdlog::error("a thread did not stop within limits.drain_timeout_ms; exiting");
      ExitNow(kExitStuck);
    }
  }
  if (drainer.joinable()) drainer.join();
  FlushSpans(deadline, server);
  spdlog::info("stopped");
  return kExitOk;
}

// The exit does not wait for Shutdown, which hangs if another engine's device does.
void EndFailed(Server* server) {
  spdlog::error("{}; exiting", server->watchdog.unhealthy_reason());
  server->phase = Server::Phase::kDraining;
  server->edge.StartDraining(AdmissionRefusal::kDeviceFailed);
  ExitAfter(kFailedGrace, kExitDeviceFailed);
  std::thread drainer = RunBeside([server] {
    server->edge.Shutdown(absl::Now() + kFailedGrace);
    ExitNow(kExitDeviceFailed);
  });
  if (drainer.joinable()) drainer.detach();
  absl::SleepFor(kFailedGrace);
  ExitNow(kExitDeviceFailed);
}

void EndStalled(Server* server) {
  spdlog::error("stalled for longer than health.exit_after_ms: {}; exiting", server->watchdog.unhealthy_reason());
  ExitNow(kExitStalled);
}

}  // namespace dunlin::server
