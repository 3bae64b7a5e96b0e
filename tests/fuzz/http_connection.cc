// SPDX-License-Identifier: Apache-2.0
// A connection of the HTTP port: what a client sends, in any pieces, up to routes that answer at once or take a body.
#include "server/transport/http/http_connection.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/input_bytes.h"

namespace dunlin::fuzz {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kMaxBodyBytes = 512;
constexpr size_t kMaxWrittenBytes = size_t{4} << 20;

// The bytes of a client that sends `input` in pieces and then ends its side; what it gets is appended to *output.
class ScriptedStream final : public server::ByteStream {
 public:
  ScriptedStream(asio::io_context* io, std::string_view input, size_t piece, std::string* output)
      : ByteStream(asio::ip::tcp::socket(*io)), io_(io), input_(input), piece_(piece), output_(output) {}

  void ReadSome(asio::mutable_buffer buffer, ReadHandler handler) override {
    const size_t size = std::min({buffer.size(), piece_, input_.size()});
    std::memcpy(buffer.data(), input_.data(), size);
    input_.remove_prefix(size);
    const error_code error = size == 0 ? error_code(asio::error::eof) : error_code();
    asio::post(*io_, [handler = std::move(handler), error, size] { handler(error, size); });
  }
  void Write(asio::const_buffer buffer, WriteHandler handler) override {
    output_->append(static_cast<const char*>(buffer.data()), buffer.size());
    asio::post(*io_, [handler = std::move(handler)] { handler(error_code()); });
  }
  void FinishSending() override {}

 private:
  asio::io_context* const io_;
  std::string_view input_;
  const size_t piece_;
  std::string* const output_;
};

// Sends the body back, whole or in two pieces.
class Echo final : public server::HttpHandler {
 public:
  explicit Echo(bool streams) : streams_(streams) {}

  std::optional<server::HttpReply> Admit(const server::HttpRequest& request, size_t body_bytes) override {
    DUNLIN_FUZZ_CHECK(body_bytes <= kMaxBodyBytes, "a body over the limit is let through");
    if (request.header("x-refuse").empty()) return std::nullopt;
    return server::TextReply(429, "refused, as asked");
  }
  std::optional<server::HttpReply> OnBodyBytes(size_t bytes) override {
    body_bytes_ += bytes;
    return std::nullopt;
  }
  void Start(std::shared_ptr<server::HttpExchange> exchange, std::string body) override {
    DUNLIN_FUZZ_CHECK(body.size() <= kMaxBodyBytes, "a body over the limit comes in");
    DUNLIN_FUZZ_CHECK(body.size() == body_bytes_, "the bytes of a body are miscounted");
    if (!streams_) return exchange->Respond({200, server::kPlainText, std::move(body)});
    exchange->Begin({200, server::kPlainText, body}, "");
    exchange->End(std::move(body));
  }
  void OnWriteDone(bool /*ok*/) override {}
  void OnCancel() override {}
  void OnDone() override {}

 private:
  const bool streams_;
  size_t body_bytes_ = 0;
};

server::HttpRoute EchoRoute(const char* path, bool streams) {
  server::HttpRoute route{.method = "POST", .path = path};
  route.open = [streams] { return std::make_shared<Echo>(streams); };
  route.max_body_bytes = kMaxBodyBytes;
  route.max_body_key = "limits.max_message_bytes";
  route.cors = true;
  return route;
}

std::vector<server::HttpRoute> Routes() {
  server::HttpRoute item{.method = "GET", .path = "/v1/models/{id}"};
  item.answer = [](const server::HttpRequest& request) { return server::TextReply(200, request.parameter); };
  return {item, EchoRoute("/v1/echo", false), EchoRoute("/v1/stream", true)};
}

// What the connections of a server share; nothing of a connection stays in it.
struct Shared {
  asio::io_context io;
  const server::CorsPolicy cors{std::vector<std::string>{"https://chat.example"}};
  server::HttpShared of_connections{.routes = server::HttpRouteTable(Routes()),
                                    .cors = cors,
                                    .browsers = server::BrowserGuard({"host.example"}, &cors),
                                    .has_keys = [] { return false; },
                                    .timeouts = {},
                                    .on_response = [](std::string_view, int) {},
                                    .io = &io};
};

// What the client gets.
std::string Serve(std::string_view input, size_t piece) {
  static Shared shared;  // its descriptors cost more than a request
  asio::io_context& io = shared.io;
  io.restart();
  std::string output;
  bool closed = false;
  auto connection = std::make_shared<server::HttpConnection>(
      std::make_unique<ScriptedStream>(&io, input, piece, &output), "192.0.2.1", &shared.of_connections,
      [&closed](server::HttpConnection*) { closed = true; });
  connection->Start();
  io.run();
  // What still waits, for its linger time or for a client, waits for time to pass.
  connection->Sweep(server::HttpConnection::Clock::now() + std::chrono::hours(1));
  io.restart();
  io.run();
  connection.reset();
  io.restart();
  io.run();
  DUNLIN_FUZZ_CHECK(closed, "a connection stays open");
  DUNLIN_FUZZ_CHECK(output.size() <= kMaxWrittenBytes, "too much is written");
  DUNLIN_FUZZ_CHECK(output.empty() || output.starts_with("HTTP/1.1 "), "what is sent is no response");
  return output;
}

// The status line of the answer. Whether "100 Continue" comes before it goes by the pieces: not where the body's first
// byte comes with the head (RFC 9110, 10.1.1).
std::string StatusLine(std::string_view output) {
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  if (output.starts_with(kContinue)) output.remove_prefix(kContinue.size());
  return std::string(output.substr(0, output.find('\r')));
}

}  // namespace

// Input: the bytes of a piece (1 byte), what the client sends.
int FuzzHttpConnection(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const size_t piece = 1 + size_t{input.Byte()};
  const std::string whole = StatusLine(Serve(input.rest(), SIZE_MAX));
  const std::string divided = StatusLine(Serve(input.rest(), piece));
  // Of a header that the client does not complete a fault may or may not be seen before its end.
  DUNLIN_FUZZ_CHECK(whole.empty() || divided.empty() || whole == divided,
                    "the pieces decide what is answered: " + whole + " or " + divided);
  return 0;
}

}  // namespace dunlin::fuzz
