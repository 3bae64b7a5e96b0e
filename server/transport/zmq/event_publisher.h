// SPDX-License-Identifier: Apache-2.0
// Publishes the batches of a KvEventLog over ZeroMQ, as vLLM does: a PUB socket for those who follow, a ROUTER socket
// for those who have missed some. Neither knows its peers: both belong on addresses that only routers reach.
//   PUB     topic, sequence number, payload
//   ROUTER  asked for (empty), sequence number: (empty), sequence number, payload of each batch from there on that is
//           kept, then (empty), -1, (nothing)
// Sequence numbers are 8 bytes, big-endian, and count batches from 0. What a peer cannot take beyond `hwm` messages is
// dropped; it sees the gap in the numbers.
// Thread rule: Start and the destructor on the owner's thread; one thread of its own, beside those of ZeroMQ.
// Source: ZeroMQ RFC 28 (request-reply), 29 (publish-subscribe).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/cache/kv_events.h"
#include "engine/request/clock.h"

namespace dunlin::server {

struct EventPublisherOptions {
  std::string endpoint;         // "tcp://127.0.0.1:5557"; port 0 picks a free one
  std::string replay_endpoint;  // of the ROUTER socket; "": there is none
  std::string topic;            // first frame of every message; may be empty
  int32_t hwm = 100000;         // messages that wait for one peer; >= 1
};

class EventPublisher {
 public:
  // The payload of one batch. unix_time: when it was published, in seconds. Called on the publisher's thread.
  using Encode = std::string (*)(const engine::KvEventBatch& batch, double unix_time);

  // Binds both sockets and publishes what comes from now on. clock: the engine's. UNAVAILABLE, naming the endpoint,
  // when one cannot be bound; INVALID_ARGUMENT when it is none.
  static absl::StatusOr<std::unique_ptr<EventPublisher>> Start(const EventPublisherOptions& options,
                                                               std::shared_ptr<engine::KvEventLog> log,
                                                               engine::Clock clock, Encode encode);
  // Drops what has not been sent, joins the thread.
  ~EventPublisher();
  EventPublisher(const EventPublisher&) = delete;
  EventPublisher& operator=(const EventPublisher&) = delete;

  // With the actual ports: where peers connect to.
  const EventPublisherOptions& options() const;

 private:
  struct State;
  explicit EventPublisher(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
