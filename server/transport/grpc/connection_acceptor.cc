// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/connection_acceptor.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/thread_name.h"

namespace dunlin::server {
namespace {

constexpr int kMaxAcceptsInARow = 256;  // then the other listeners and the stop have their turn
constexpr uint32_t kMaxPort = 65535;
constexpr int kBackoffMs = 100;  // without descriptors or memory
constexpr int kTurnMs = 200;     // at most, without connections

// "host:port" in parts; the brackets of "[v6]" are left out.
struct HostPort {
  std::string host;
  std::string port;
};

std::optional<HostPort> Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  HostPort parts = {address.substr(0, colon), address.substr(colon + 1)};
  if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  return parts;
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const bool is_v6 = address.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                     : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

void SetPort(int port, sockaddr* address) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
  }
}

// The listening socket, or -1 with errno set.
int BindAndListen(const addrinfo& info, bool only_v6) {
  const int fd = socket(info.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int v6only = only_v6 ? 1 : 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (info.ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
  if (bind(fd, info.ai_addr, info.ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

bool IsLackOfResources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

struct ConnectionAcceptor::State {
  State(OpenConnections* open, unsigned int unacknowledged_ms)
      : connections(open), user_timeout_ms(unacknowledged_ms) {}
  ~State() {
    for (const pollfd& listener : listeners) close(listener.fd);
    if (stop_event >= 0) close(stop_event);
  }

  absl::Status Bind(const std::string& address);
  void Run();
  // False when the process lacks descriptors or memory.
  bool AcceptAll(int listener);
  void Take(int fd, const sockaddr_storage& peer);

  OpenConnections* const connections;
  const unsigned int user_timeout_ms;
  int port = 0;
  int stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::vector<pollfd> listeners;  // const once bound
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc_server;
  std::atomic<uint64_t> turns{0};
  std::thread thread;
};

absl::Status ConnectionAcceptor::State::Bind(const std::string& address) {
  const auto failed = [&address](const char* reason) {
    return absl::UnavailableError(absl::StrCat("listen.grpc: cannot listen on ", address, ": ", reason));
  };
  if (stop_event < 0) return failed(std::strerror(errno));
  const std::optional<HostPort> parts = Split(address);
  if (!parts.has_value()) return failed("it has no port");
  // getaddrinfo takes a larger number modulo 65536.
  uint32_t number = 0;
  if (!absl::SimpleAtoi(parts->port, &number) || number > kMaxPort) return failed("the port is not in [0, 65535]");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(parts->host.empty() ? nullptr : parts->host.c_str(), parts->port.c_str(), &hints, &found);
  if (error != 0) return failed(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  bool has_v4 = false;
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) has_v4 |= info->ai_family == AF_INET;
  int last_error = 0;
  for (addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    if (port != 0) SetPort(port, info->ai_addr);
    const int fd = BindAndListen(*info, /*only_v6=*/has_v4);
    if (fd < 0) {
      last_error = errno;
      // A name may stand for a protocol that this machine lacks, but a port that another server has is taken.
      if (last_error != EAFNOSUPPORT && last_error != EADDRNOTAVAIL) return failed(std::strerror(last_error));
      continue;
    }
    port = PortOf(fd);
    listeners.push_back({fd, POLLIN, 0});
  }
  return listeners.empty() ? failed(std::strerror(last_error)) : absl::OkStatus();
}

void ConnectionAcceptor::State::Run() {
  std::vector<pollfd> all = listeners;
  all.push_back({stop_event, POLLIN, 0});
  while (true) {
    turns.fetch_add(1, std::memory_order_relaxed);
    if (poll(all.data(), all.size(), kTurnMs) < 0 && errno != EINTR) return;
    if (all.back().revents != 0) return;
    bool has_resources = true;
    for (const pollfd& listener : listeners) has_resources = AcceptAll(listener.fd) && has_resources;
    // The connections stay in the kernel's queue meanwhile.
    if (!has_resources && poll(&all.back(), 1, kBackoffMs) > 0) return;
  }
}

bool ConnectionAcceptor::State::AcceptAll(int listener) {
  for (int accepted = 0; accepted < kMaxAcceptsInARow; ++accepted) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const int fd = accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      Take(fd, peer);
    } else if (IsLackOfResources(errno)) {
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    }  // else it was gone before it was accepted
  }
  return true;
}

void ConnectionAcceptor::State::Take(int fd, const sockaddr_storage& peer) {
  if (!connections->TryAdd(fd, peer)) {
    close(fd);
    return;
  }
  const int on = 1;
  // As gRPC's listener does. Without the second a client that does not read its socket holds a write, and with it its
  // calls, for ever: keepalive waits for the write.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = fd;
  grpc_server->HandleNewConnection(&connection);
}

ConnectionAcceptor::ConnectionAcceptor(std::unique_ptr<State> state) : state_(std::move(state)) {}

ConnectionAcceptor::~ConnectionAcceptor() {
  if (!state_->thread.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(state_->stop_event, &one, sizeof(one));
  state_->thread.join();
}

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(const std::string& address,
                                                                               OpenConnections* connections,
                                                                               unsigned int user_timeout_ms) {
  auto state = std::make_unique<State>(connections, user_timeout_ms);
  if (absl::Status status = state->Bind(address); !status.ok()) return status;
  return std::unique_ptr<ConnectionAcceptor>(new ConnectionAcceptor(std::move(state)));
}

int ConnectionAcceptor::port() const {
  return state_->port;
}

uint64_t ConnectionAcceptor::turns() const {
  return state_->turns.load(std::memory_order_relaxed);
}

void ConnectionAcceptor::Serve(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc_server) {
  state_->grpc_server = std::move(grpc_server);
  state_->thread = std::thread([state = state_.get()] {
    engine::NameThread("grpc-accept");
    state->Run();
  });
}

}  // namespace dunlin::server
