// SPDX-License-Identifier: Apache-2.0
// Keeps gRPC 1.51's callback threads awake on an idle server.
// The callback API runs everything on two threads of gRPC's own (on a small machine), each of which sleeps for 100 ms
// after a second without an event: of the calls that come after a pause, one in five waited for 30 to 90 ms (measured).
// One health check through an in-process channel every 400 ms refreshes one of the two; the other can then time out
// only while the first is fresh, so the two never sleep at once. Costs some 0.1 ms of processor time a tick, which also
// drives the server's periodic work. Thread rule: construct and destroy on one thread; ticks run on gRPC's.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>

namespace dunlin::server {

class IdleTicker {
 public:
  // channel: to a server with Health on it; it must be up until the ticker is gone. on_tick: once a tick, one call at a
  // time, on gRPC's threads; must not block.
  IdleTicker(const std::shared_ptr<grpc::Channel>& channel, std::function<void()> on_tick);
  // Waits for a tick under way.
  ~IdleTicker();
  IdleTicker(const IdleTicker&) = delete;
  IdleTicker& operator=(const IdleTicker&) = delete;

 private:
  struct State;
  static void Tick(const std::shared_ptr<State>& state);
  static void Rest(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // shared with the tick under way
};

}  // namespace dunlin::server
