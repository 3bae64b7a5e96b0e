// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/open_connections.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/string_view.h"
#include "server/process/monotonic_clock.h"
#include "server/transport/grpc/stream_gate.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kSweepPeriod = 20'000'000;  // at most: a sweep takes 0.2 us per connection

// The client's address without its port. An IPv4 address is the same over an IPv6 socket.
std::string AddressOf(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (peer.ss_family != AF_INET6) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&peer)->sin_addr, text.data(), text.size());
    return text.data();
  }
  const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_addr;
  const bool is_v4 = IN6_IS_ADDR_V4MAPPED(&address);
  inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? &address.s6_addr[12] : &address.s6_addr[0], text.data(), text.size());
  return text.data();
}

int PeerPort(const sockaddr_storage& peer) {
  return ntohs(peer.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_port
                                          : reinterpret_cast<const sockaddr_in*>(&peer)->sin_port);
}

// gRPC's name of a peer in the form of by_peer_'s keys: without the scheme, the escaped brackets, and the zone of a
// link-local address.
std::string KeyOf(std::string_view peer) {
  peer.remove_prefix(peer.find(':') + 1);
  std::string key = absl::StrReplaceAll(engine::AbslView(peer), {{"%5B", ""}, {"[", ""}, {"%5D", "]"}});
  const size_t end = key.find(']');
  if (end == std::string::npos) return key;
  const size_t zone = std::min(key.find('%'), end);
  return key.erase(zone, end + 1 - zone);
}

}  // namespace

OpenConnections::OpenConnections(const ConnectionLimits& limits, std::shared_ptr<ConnectionShared> shared)
    : shared_(std::move(shared)), counts_(limits) {}

OpenConnections::~OpenConnections() {
  const engine::MutexLock lock(&mutex_);
  for (const auto& [peer, connection] : by_peer_) StreamGate::Forget(*connection);
}

bool OpenConnections::TryAdd(int fd, const sockaddr_storage& peer) {
  const std::string address = AddressOf(peer);
  const std::string key = absl::StrCat(address, ":", PeerPort(peer));
  const engine::TimeNs now = MonotonicNs();
  const engine::MutexLock lock(&mutex_);
  if (const auto earlier = by_peer_.find(key); earlier != by_peer_.end()) {
    Drop(*earlier->second);  // the client has its port again, or has it twice, on two addresses of this machine
    by_peer_.erase(earlier);
  }
  if (!counts_.TryAdd(address)) {
    Sweep(now);
    if (!counts_.TryAdd(address)) return false;
  }
  auto connection = std::make_shared<GrpcConnection>(fd, shared_->budgets.Add(address, now), shared_);
  by_peer_.emplace(key, connection);
  StreamGate::Watch(std::move(connection));
  return true;
}

void OpenConnections::Drop(const GrpcConnection& connection) {
  // What gRPC has still to read of one that is open is watched until another connection has its descriptor.
  if (connection.is_closed()) StreamGate::Forget(connection);
  counts_.Remove(connection.address());
}

void OpenConnections::Sweep(engine::TimeNs now) {
  if (now < next_sweep_) return;
  next_sweep_ = now + kSweepPeriod;
  for (auto it = by_peer_.begin(); it != by_peer_.end();) {
    const auto present = it++;
    if (!present->second->is_closed()) continue;
    Drop(*present->second);
    by_peer_.erase(present);
  }
}

std::shared_ptr<GrpcConnection> OpenConnections::Find(std::string_view peer) const {
  const std::string key = KeyOf(peer);
  const engine::MutexLock lock(&mutex_);
  const auto found = by_peer_.find(key);
  return found == by_peer_.end() ? nullptr : found->second;
}

}  // namespace dunlin::server
