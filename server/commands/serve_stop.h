// SPDX-License-Identifier: Apache-2.0
// The ways in which `dunlin serve` ends once its ports are open. Each has a bound in time that holds whatever a thread
// hangs in: a device, a write, a destructor. Thread rule: the main thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "server/commands/serve_server.h"

namespace dunlin::server {

// Sends the service manager's watchdog ping. Without pings the manager restarts the process, which covers both a
// stalled part and a hang of this thread.
void BeatIfHealthy(Server* server);

// Runs `load` on a thread of its own, with a flag that a stop signal sets: it should then return soon. The process ends
// within a second of that signal whether it does or not. nullopt if `load` was stopped.
std::optional<absl::Status> LoadUnlessStopped(const std::function<absl::Status(const std::atomic<bool>& stop)>& load,
                                              Server* server);

// Lets calls in flight finish within the time limit; returns the exit status. A thread that does not stop then ends the
// process with kExitStuck, two seconds after the limit at the latest. A second stop signal ends it immediately,
// unless it comes within 0.2 s of the first.
int Drain(int64_t timeout_ms, Server* server);

// This process cannot use a failed device again: it exits, and a supervisor restarts it. The engine has ended its
// requests with UNAVAILABLE; a grace period lets their streams deliver that status.
[[noreturn]] void EndFailed(Server* server);

// A part has stalled for longer than health.exit_after_ms. On any thread.
[[noreturn]] void EndStalled(Server* server);

}  // namespace dunlin::server
