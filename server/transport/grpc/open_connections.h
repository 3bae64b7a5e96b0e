// SPDX-License-Identifier: Apache-2.0
// The connections that a port has handed to gRPC, within the limits on their number. All of them are looked at when a
// limit is reached: gRPC does not say when it has closed one. Thread rule: any thread.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "engine/base/mutex.h"
#include "engine/request/types.h"
#include "server/access/connection_counts.h"
#include "server/transport/grpc/grpc_connection.h"

namespace dunlin::server {

class OpenConnections {
 public:
  OpenConnections(const ConnectionLimits& limits, std::shared_ptr<ConnectionShared> shared);
  // No call of theirs is looked at afterwards.
  ~OpenConnections();
  OpenConnections(const OpenConnections&) = delete;
  OpenConnections& operator=(const OpenConnections&) = delete;

  // A connection that was accepted. False: it is over a limit.
  bool TryAdd(int fd, const sockaddr_storage& peer);
  // The connection from this peer, as gRPC names it: "ipv4:192.0.2.1:50000", "ipv6:%5B2001:db8::1%5D:50000". Null:
  // none, as for callers in the process and on Unix sockets.
  std::shared_ptr<GrpcConnection> Find(std::string_view peer) const;

 private:
  // Its entry is erased.
  void Drop(const GrpcConnection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Sweep(engine::TimeNs now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<ConnectionShared> shared_;
  mutable engine::Mutex mutex_;  // guards what follows, between the accepting thread and gRPC's
  ConnectionCounts counts_ ABSL_GUARDED_BY(mutex_);
  // By "address:port" of the client; not known to be closed.
  absl::flat_hash_map<std::string, std::shared_ptr<GrpcConnection>> by_peer_ ABSL_GUARDED_BY(mutex_);
  engine::TimeNs next_sweep_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace dunlin::server
