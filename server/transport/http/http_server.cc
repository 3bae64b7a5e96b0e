// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/http_server.h"

#include <netinet/tcp.h>
#include <pthread.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/thread_name.h"
#include "server/transport/http/byte_stream.h"
#include "server/transport/http/http_connection.h"

namespace dunlin::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::beast::error_code;

constexpr auto kBackoff = std::chrono::milliseconds(100);
constexpr auto kSweepPeriod = std::chrono::milliseconds(50);
// What a client may leave unread in the kernel: some 2 s of a fast stream. The default grows to megabytes, which would
// hide for long that a client does not read.
constexpr int kSendBufferBytes = 128 * 1024;
constexpr int kKeepaliveIdleSeconds = 30;  // then the kernel asks whether the client is still there

template <int kName>
using TcpOption = asio::detail::socket_option::integer<IPPROTO_TCP, kName>;

// Without the port. An IPv4 address is the same over an IPv6 socket.
std::string AddressOf(const tcp::endpoint& peer) {
  const asio::ip::address address = peer.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
}

absl::StatusOr<tcp::endpoint> ParseEndpoint(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  std::string host = colon == std::string::npos ? "" : address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  error_code error;
  const auto ip = asio::ip::make_address(host, error);
  if (error || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen.http is \"", address, "\"; limit is IP:PORT, with a port in [0, 65535]"));
  }
  return tcp::endpoint(ip, static_cast<unsigned short>(port));
}

// "127.0.0.1:8080", "[::1]:8080"
std::string TextOf(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return absl::StrCat(endpoint.address().is_v6() ? absl::StrCat("[", host, "]") : host, ":", endpoint.port());
}

// OpenSSL writes to sockets by write(2), which raises the signal on its own thread.
void BlockBrokenPipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

struct HttpServer::State {
  explicit State(HttpServerOptions options)
      : certificates(options.certificates),
        connections(options.connections),
        shared{HttpRouteTable(std::move(options.routes)),
               CorsPolicy(std::move(options.cors_origins)),
               BrowserGuard(std::move(options.host_names), &shared.cors),
               std::move(options.has_keys),
               options.timeouts,
               std::move(options.on_response),
               &io},
        acceptor(io),
        backoff(io),
        sweeper(io) {}

  absl::Status Bind(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("listen.http: cannot listen on ", TextOf(endpoint), ": ", error.message()));
    }
    bound_address = TextOf(acceptor.local_endpoint());
    return absl::OkStatus();
  }

  void Accept() {
    acceptor.async_accept([this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return AcceptLater();
      Serve(std::move(socket));
      Accept();
    });
  }

  // Beyond a limit, the socket goes out of scope and is closed.
  void Serve(tcp::socket socket) {
    error_code gone;
    const std::string address = AddressOf(socket.remote_endpoint(gone));
    if (gone || !connections.TryAdd(address)) return;
    SetOptions(&socket);
    std::unique_ptr<ByteStream> stream = StreamOf(std::move(socket));
    if (stream == nullptr) return connections.Remove(address);
    const auto connection =
        std::make_shared<HttpConnection>(std::move(stream), address, &shared, [this, address](HttpConnection* closed) {
          connections.Remove(address);
          open.erase(closed);
        });
    open.insert(connection.get());
    if (open.size() == 1) Sweep();
    connection->Start();
  }

  // Null without memory for a session.
  std::unique_ptr<ByteStream> StreamOf(tcp::socket socket) const {
    if (certificates == nullptr) return MakePlainStream(std::move(socket));
    return MakeTlsStream(std::move(socket), certificates->current()->context.get());
  }

  // A client whose machine is gone answers neither data nor probes. Twice the time of a slow reader, so that a call
  // that is not read ends as such.
  void SetOptions(tcp::socket* socket) const {
    const int unanswered_ms = static_cast<int>(2 * shared.timeouts.write.count());
    error_code ignored;
    socket->set_option(tcp::no_delay(true), ignored);
    socket->set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
    socket->set_option(asio::socket_base::keep_alive(true), ignored);
    socket->set_option(TcpOption<TCP_KEEPIDLE>(kKeepaliveIdleSeconds), ignored);
    socket->set_option(TcpOption<TCP_USER_TIMEOUT>(unanswered_ms), ignored);
  }

  // One timer for all connections, while there are any: a timer for each would be set with every read and write.
  void Sweep() {
    sweeper.expires_after(kSweepPeriod);
    sweeper.async_wait([this](error_code error) {
      if (error) return;
      const auto now = HttpConnection::Clock::now();
      ForEachOpen([now](HttpConnection* connection) { connection->Sweep(now); });
      if (abort_at.has_value() && now >= *abort_at) ForEachOpen(&HttpConnection::AbortIfAdmitted);
      if (!open.empty()) Sweep();
    });
  }

  // The call may end the connection's life.
  template <class Call>
  void ForEachOpen(const Call& call) {
    for (auto next = open.begin(); next != open.end();) {
      const std::shared_ptr<HttpConnection> connection = (*next++)->shared_from_this();
      std::invoke(call, connection.get());
    }
  }

  // Without descriptors (EMFILE) every accept fails at once, and a loop would take a processor.
  void AcceptLater() {
    backoff.expires_after(kBackoff);
    backoff.async_wait([this](error_code error) {
      if (!error) Accept();
    });
  }

  const CertificateStore* const certificates;

  // Of the HTTP thread. They outlive the connections, which io destroys.
  ConnectionCounts connections;
  std::unordered_set<HttpConnection*> open;
  std::optional<HttpConnection::Clock::time_point> abort_at;

  HttpShared shared;

  std::string bound_address;
  // Not 1: what the thread posts to itself would then come behind what other threads posted after it, and an end before
  // its beginning.
  asio::io_context io{2};
  tcp::acceptor acceptor;
  uint64_t pings_sent = 0;
  std::atomic<uint64_t> pings_done{0};  // counted on the HTTP thread
  asio::steady_timer backoff;
  asio::steady_timer sweeper;
  std::thread thread;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->Accept();
  state_->thread = std::thread([io = &state_->io] {
    engine::NameThread("http");
    BlockBrokenPipe();
    io->run();
  });
}

HttpServer::~HttpServer() {
  state_->io.stop();
  state_->thread.join();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address, HttpServerOptions options) {
  absl::StatusOr<tcp::endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.status();
  auto state = std::make_unique<State>(std::move(options));
  if (absl::Status status = state->Bind(*endpoint); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

void HttpServer::StartDraining() {
  asio::post(state_->io, [state = state_.get()] {
    state->shared.draining = true;
    state->ForEachOpen(&HttpConnection::CloseIfIdle);
  });
}

void HttpServer::AbortExchangesAfter(std::chrono::milliseconds grace) {
  asio::post(state_->io, [state = state_.get(), grace] { state->abort_at = HttpConnection::Clock::now() + grace; });
}

uint64_t HttpServer::Ping() {
  const uint64_t done = state_->pings_done.load(std::memory_order_relaxed);
  if (done == state_->pings_sent) {
    ++state_->pings_sent;
    asio::post(state_->io, [state = state_.get()] { state->pings_done.fetch_add(1, std::memory_order_relaxed); });
  }
  return done;
}

const std::string& HttpServer::bound_address() const {
  return state_->bound_address;
}

}  // namespace dunlin::server
