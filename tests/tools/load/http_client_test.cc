// SPDX-License-Identifier: Apache-2.0
// The OpenAI client and HttpGet against a misbehaving server.
#include "tools/load/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/load/http_get.h"
#include "tools/load/runner.h"

namespace dunlin::tools::load {
namespace {

void Say(int socket, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t sent = send(socket, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += static_cast<size_t>(sent);
  }
}

std::string Chunked(const std::string& text) {
  char size[16];
  snprintf(size, sizeof(size), "%zx\r\n", text.size());
  return size + text + "\r\n";
}

const std::string kHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string Token(const std::string& text, const std::string& finish = "null") {
  return Chunked("data: {\"choices\": [{\"text\": \"" + text + "\", \"finish_reason\": " + finish + "}]}\n\n");
}

const std::string kEnd = Chunked("data: [DONE]\n\n") + "0\r\n\r\n";

// Accepts one connection at a time and answers each request on it by `answer(socket, index of the request)`, until that
// returns false: then it closes the connection.
class FakeServer {
 public:
  using Answer = std::function<bool(int socket, int request)>;

  explicit FakeServer(Answer answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    listen(listener_, 16);
    socklen_t size = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int num_connections() const { return num_connections_; }

 private:
  void Serve() {
    for (int connection; (connection = accept(listener_, nullptr, nullptr)) >= 0;) {
      ++num_connections_;
      while (ReadRequest(connection) && answer_(connection, num_requests_++)) {
      }
      close(connection);
    }
  }

  // Reads the header, then the body by Content-Length, if any.
  static bool ReadRequest(int connection) {
    std::string text;
    size_t want = std::string::npos;
    while (text.size() < want) {
      char buffer[4096];
      const ssize_t got = recv(connection, buffer, sizeof(buffer), 0);
      if (got <= 0) return false;
      text.append(buffer, static_cast<size_t>(got));
      const size_t end = text.find("\r\n\r\n");
      const size_t length = text.find("Content-Length: ");
      if (end != std::string::npos) want = end + 4 + (length < end ? std::stoul(text.substr(length + 16)) : 0);
    }
    return true;
  }

  const Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  int num_requests_ = 0;
  std::atomic<int> num_connections_{0};
  std::thread thread_;
};

// Runs requests one after the other against `server`.
Recording RunAgainst(const FakeServer& server, int64_t num_requests, int64_t timeout_ms = 0,
                     int32_t cancel_after_tokens = 0) {
  boost::asio::io_context io;
  RequestOptions options;
  options.model = "m";
  options.timeout_ms = timeout_ms;
  const auto client = MakeHttpClient(&io, *ResolveHttp(server.address(), "/v1/completions"), options);
  DatasetOptions data;
  data.output_tokens = 4;
  const auto dataset = OpenDataset(data);
  const auto mix = ParseMix("");
  LoadShape shape;
  shape.num_requests = num_requests;
  shape.drain_s = 5;
  shape.cancel_after_tokens = cancel_after_tokens;
  Runner runner({&io, client.get(), dataset->get(), &*mix}, shape, {});
  return runner.Run({});
}

TEST(HttpClient, CountsTokensAndKeepsTheConnection) {
  const FakeServer server([](int socket, int) {
    Say(socket, kHead + Token("") + Token("a") + Token("b") + Token("c", "\"stop\"") + kEnd);
    return true;
  });
  const Recording recording = RunAgainst(server, 3);
  EXPECT_EQ(recording.Sum().completed, 3);
  EXPECT_EQ(recording.Sum().output_tokens, 9) << "a chunk without text is not a token";
  EXPECT_EQ(recording.Sum().itl.count(), 6);
  EXPECT_EQ(server.num_connections(), 1);
}

TEST(HttpClient, PrefersUsageAndLengthOverCountingChunks) {
  const FakeServer server([](int socket, int request) {
    const std::string usage =
        request == 0
            ? Chunked("data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 11, \"completion_tokens\": 9}}\n\n")
            : "";
    Say(socket, kHead + Token("ab", "\"length\"") + usage + kEnd);
    return true;
  });
  EXPECT_EQ(RunAgainst(server, 1).Sum().output_tokens, 9);
  EXPECT_EQ(RunAgainst(server, 1).Sum().output_tokens, 4) << "max_tokens, as it ended for its length";
}

TEST(HttpClient, TruncatedStreamFails) {
  const FakeServer cut([](int socket, int) {
    Say(socket, kHead + Token("a"));
    return false;
  });
  Recording recording = RunAgainst(cut, 2);
  EXPECT_EQ(recording.Sum().failed, 2);
  EXPECT_EQ(recording.reasons.count("EARLY_END"), 1U) << recording.reasons.begin()->first;
  const FakeServer without_end([](int socket, int) {
    Say(socket, kHead + Token("a") + "0\r\n\r\n");
    return true;
  });
  recording = RunAgainst(without_end, 2);
  EXPECT_EQ(recording.Sum().failed, 2);
  EXPECT_EQ(recording.reasons.count("EARLY_END"), 1U);
}

TEST(HttpClient, MalformedEventFails) {
  const FakeServer server([](int socket, int request) {
    constexpr const char* kData[] = {R"({"cho)", R"({"error": "no memory"})",
                                     R"({"error": {"message": "no pages", "code": "DEVICE_FAILED"}})"};
    Say(socket, kHead + Token("a") + Chunked(std::string("data: ") + kData[request] + "\n\n"));
    return false;
  });
  const Recording recording = RunAgainst(server, 3);
  EXPECT_EQ(recording.Sum().failed, 3);
  EXPECT_EQ(recording.reasons.at("BAD_EVENT").count, 1);
  EXPECT_EQ(recording.reasons.at("ERROR_EVENT").example, "no memory");
  EXPECT_EQ(recording.reasons.at("DEVICE_FAILED").example, "no pages");
}

TEST(HttpClient, CountsTokenIdsWhereTheServerSendsThem) {
  const FakeServer server([](int socket, int) {
    const auto event = [](const char* ids, const char* finish) {
      return Chunked(absl::StrCat(R"(data: {"choices": [{"text": "", "token_ids": )", ids, R"(, "finish_reason": )",
                                  finish, R"(}], "dunlin": {"timings": {"queue_ms": 1, "total_ms": 1.5}}})", "\n\n"));
    };
    Say(socket, kHead + event("[]", "null") + event("[1, 2]", "null") + event("[3]", "\"stop\"") + kEnd);
    return true;
  });
  const Recording recording = RunAgainst(server, 2);
  EXPECT_EQ(recording.Sum().completed, 2);
  EXPECT_EQ(recording.Sum().output_tokens, 6);
  EXPECT_EQ(recording.Sum().token_messages, 4) << "an event without ids has no token";
  EXPECT_EQ(recording.Sum().beyond_engine.count(), 2);
  EXPECT_EQ(recording.tokens, 6);
  EXPECT_GT(recording.cpu_seconds, 0);
}

TEST(HttpClient, DistinguishesRefusalsFromFailures) {
  const FakeServer server([](int socket, int request) {
    const std::string body = request == 3 ? R"({"error": {"message": "full", "code": "QUEUE_FULL"}})"
                                          : R"({"error": {"message": "too busy"}})";
    const std::string head = request % 3 == 0 ? "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\n"
                                              : "HTTP/1.1 500 Internal Server Error\r\n";
    Say(socket, head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return true;
  });
  const Recording recording = RunAgainst(server, 4);
  EXPECT_EQ(recording.Sum().refused, 2);
  EXPECT_EQ(recording.Sum().failed, 2);
  EXPECT_EQ(recording.reasons.at("HTTP_429").with_retry_info, 1);
  EXPECT_EQ(recording.reasons.at("QUEUE_FULL").example, "HTTP_429: full");
  EXPECT_EQ(recording.reasons.at("HTTP_500").example, "HTTP_500: too busy");
}

TEST(HttpClient, ResponseThatIsNotHttpFails) {
  const FakeServer server([](int socket, int) {
    Say(socket, "220 mail.example.org\r\n\r\n");
    return false;
  });
  EXPECT_EQ(RunAgainst(server, 2).Sum().failed, 2);
}

TEST(HttpClient, SlowResponseMissesItsDeadline) {
  const FakeServer server([](int socket, int) {
    Say(socket, kHead + Token("a"));
    std::this_thread::sleep_for(std::chrono::seconds(3));
    return false;
  });
  const Recording recording = RunAgainst(server, 1, /*timeout_ms=*/100);
  EXPECT_EQ(recording.Sum().deadline, 1);
  EXPECT_LT(recording.seconds(), 2.9);
}

TEST(HttpClient, ReplacesAKeptConnectionThatTheServerClosed) {
  const FakeServer server([](int socket, int) {
    Say(socket, kHead + Token("a", "\"stop\"") + kEnd);
    return false;  // without announcing it
  });
  const Recording recording = RunAgainst(server, 3);
  EXPECT_EQ(recording.Sum().completed, 3);
  EXPECT_EQ(server.num_connections(), 3);
}

TEST(HttpClient, CancelsAfterItsTokens) {
  const FakeServer server([](int socket, int) {
    Say(socket, kHead + Token("a") + Token("b") + Token("c"));
    return false;
  });
  EXPECT_EQ(RunAgainst(server, 2, 0, /*cancel_after_tokens=*/2).Sum().cancelled, 2);
}

TEST(HttpClient, ResponseMayArriveByteByByteAndEndWithTheConnection) {
  const FakeServer server([](int socket, int) {
    const std::string text =
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndata: {\"choices\": [{\"text\": \"a\", "
        "\"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n";
    for (const char byte : text) Say(socket, {byte});
    return false;
  });
  const Recording recording = RunAgainst(server, 2);
  EXPECT_EQ(recording.Sum().completed, 2);
  EXPECT_EQ(recording.Sum().output_tokens, 2);
  EXPECT_EQ(server.num_connections(), 2) << "a connection that is closed is not reused";
}

absl::StatusOr<std::string> GetFrom(const FakeServer& server, int64_t timeout_ms) {
  boost::asio::io_context io;
  std::vector<absl::StatusOr<std::string>> results;
  HttpGet(&io, *ResolveHttp(server.address(), "/metrics"), timeout_ms,
          [&results](absl::StatusOr<std::string> result) { results.push_back(std::move(result)); });
  io.run();
  EXPECT_EQ(results.size(), 1U) << "done is called once";
  return results.at(0);
}

TEST(HttpGet, ReturnsTheBodyOrWhyThereIsNone) {
  const FakeServer server([](int socket, int request) {
    if (request == 0) Say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    if (request == 1) Say(socket, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    if (request == 2) Say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    if (request == 3) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return false;
  });
  EXPECT_EQ(*GetFrom(server, 5000), "hello");
  EXPECT_EQ(GetFrom(server, 5000).status(), absl::UnavailableError("HTTP status 404"));
  EXPECT_EQ(GetFrom(server, 5000).status(), absl::UnavailableError("partial message"));
  EXPECT_EQ(GetFrom(server, 50).status(), absl::UnavailableError("timed out"));
}

TEST(HttpGet, AnEmptyChunkedBodyMayArriveByteByByte) {
  const FakeServer server([](int socket, int) {
    Say(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const char byte : std::string("0\r\n\r\n")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      Say(socket, std::string(1, byte));
    }
    return true;
  });
  EXPECT_EQ(*GetFrom(server, 5000), "");
}

TEST(HttpGet, BodyIsBounded) {
  const FakeServer server([](int socket, int) {
    Say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n" + std::string(20000000, 'x'));
    return false;
  });
  EXPECT_EQ(GetFrom(server, 5000).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace dunlin::tools::load
