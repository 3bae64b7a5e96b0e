// SPDX-License-Identifier: Apache-2.0
// Keeps gRPC 1.51's callback threads awake on an idle server.
// The callback API runs everything on two of gRPC's threads (on a small machine), each of which sleeps for 100 ms after
// a second without an event: after a pause, one call in five waited for 30 to 90 ms (measured). A health check through
// an in-process channel every 400 ms keeps one of the two awake; the other can then time out only while the first is
// awake, so the two never sleep at the same time. Costs some 0.1 ms of CPU time per tick, which also drives the
// server's periodic work. Thread rule: construct and destroy on one thread; ticks run on gRPC's.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>

namespace dunlin::server {

class IdleTicker {
 public:
  // channel: to a server with Health, which must be up until the ticker is destroyed. on_tick: called once per tick,
  // one call at a time, on gRPC's threads; must not block.
  IdleTicker(const std::shared_ptr<grpc::Channel>& channel, std::function<void()> on_tick);
  // Waits for a tick in progress.
  ~IdleTicker();
  IdleTicker(const IdleTicker&) = delete;
  IdleTicker& operator=(const IdleTicker&) = delete;

 private:
  struct State;
  static void Tick(const std::shared_ptr<State>& state);
  static void Rest(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // shared with the tick in progress
};

}  // namespace dunlin::server
