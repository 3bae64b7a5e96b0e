// SPDX-License-Identifier: Apache-2.0
// Bytes on the ports: HTTP requests, HTTP/2 frames, gRPC's prefix and its timeout header.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/raw_connection.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

std::string Get(const std::string& path, const std::string& headers = "") {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}

// A good message in gRPC's framing.
std::string Body() {
  const std::string message = Generate("").message;
  return Prefixed(0, static_cast<uint32_t>(message.size()), message);
}

std::string Call(const Headers& headers) {
  return Http2Call(headers, Body());
}

std::string WithTimeout(const std::string& timeout) {
  return Call(CallHeaders({{"grpc-timeout", timeout}}));
}

// A call for many tokens, which takes longer than the timeout.
std::string Late(const std::string& timeout) {
  const std::string message = Generate("stopping { max_tokens: 1000 ignore_eos: true }").message;
  return Http2Call(CallHeaders({{"grpc-timeout", timeout}}),
                   Prefixed(0, static_cast<uint32_t>(message.size()), message));
}

// So many calls that are reset at once.
std::string RapidResets(int count) {
  std::string bytes = Http2Preface();
  const std::string headers = HeaderBlock(CallHeaders());
  for (int i = 0; i < count; ++i) {
    const auto stream = static_cast<uint32_t>(2 * i + 1);
    bytes += Http2Frame(1, kEndHeaders, stream, headers);
    bytes += Http2Frame(3, 0, stream, std::string("\0\0\0\x8", 4));
  }
  return bytes;
}

std::string Continuations(int count) {
  std::string bytes = absl::StrCat(Http2Preface(), Http2Frame(1, 0, 1, HeaderBlock(CallHeaders())));
  const std::string field = HeaderBlock({{"x-more", Times(1000, "c")}});
  for (int i = 0; i < count; ++i) bytes += Http2Frame(9, 0, 1, field);
  return bytes;
}

std::string Pings(int count) {
  return absl::StrCat(Http2Preface(), Times(count, Http2Frame(6, 0, 0, "ABCDEFGH")));
}

std::string Settings(int count) {
  return absl::StrCat(Http2Preface(), Times(count, Http2Frame(4, 0, 0, std::string("\0\x4\0\1\0\0", 6))));
}

}  // namespace

Group HttpPortRows() {
  const auto port = Port::kHttp;
  return {
      "HttpPort",
      kAttackConfig,
      {},
      {
          {"an unknown path", port, Get("/v1/admin"), "HTTP/1.1 404 Not Found"},
          {"a path upwards", port, Get("/../../etc/passwd"), "HTTP/1.1 404 Not Found"},
          {"an escaped path upwards", port, Get("/%2e%2e/%2e%2e/etc/passwd"), "HTTP/1.1 404 Not Found"},
          {"a path of 12 KB", port, Get("/" + Times(12000, "a")), "HTTP/1.1 414 URI Too Long"},
          {"a path of 20 KB", port, Get("/" + Times(20000, "a")), "HTTP/1.1 414 URI Too Long"},
          {"a header of 20 KB", port, Get("/metrics", absl::StrCat("X-Heavy: ", Times(20000, "h"), "\r\n")),
           "HTTP/1.1 431 Request Header Fields Too Large"},
          {"ten thousand headers", port, Get("/metrics", Times(10000, "X-More: 1\r\n")),
           "HTTP/1.1 431 Request Header Fields Too Large"},
          {"another method", port, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
           "HTTP/1.1 405 Method Not Allowed"},
          {"a method of bytes", port, "\x01\x02\x03 / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"},
          {"no method", port, " / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"},
          {"another protocol", port, "GET / HTTP/9.9\r\n\r\n", "HTTP/1.1 400 Bad Request"},
          {"a body", port, Get("/metrics", "Content-Length: 5\r\n") + "hello", "HTTP/1.1 413 Payload Too Large"},
          {"a body in chunks", port, Get("/metrics", "Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n\r\n",
           "HTTP/1.1 413 Payload Too Large"},
          {"a length and chunks", port,
           Get("/metrics", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
           "HTTP/1.1 400 Bad Request"},
          {"two lengths", port, Get("/metrics", "Content-Length: 5\r\nContent-Length: 6\r\n") + "hello",
           "HTTP/1.1 400 Bad Request"},
          {"a negative length", port, Get("/metrics", "Content-Length: -1\r\n"), "HTTP/1.1 400 Bad Request"},
          {"a length beyond 64 bits", port, Get("/metrics", "Content-Length: 99999999999999999999\r\n"),
           "HTTP/1.1 400 Bad Request"},
          {"a NUL in a header", port, Get("/metrics", std::string("X-A: a\0b\r\n", 10)), "HTTP/1.1 400 Bad Request"},
          {"a header without a colon", port, Get("/metrics", "nothing\r\n"), "HTTP/1.1 400 Bad Request"},
          {"a proxy's CONNECT", port, "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: localhost\r\n\r\n",
           "HTTP/1.1 404 Not Found"},
          {"HTTP/2", port, Http2Preface(), "HTTP/1.1 400 Bad Request"},
          {"TLS", port, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + Times(500, "r"),
           "HTTP/1.1 400 Bad Request"},
          {"half a request", port, "GET /metri", "open"},
          {"nothing", port, "", "open"},
      }};
}

Group FrameRows() {
  const auto port = Port::kGrpc;
  const std::string headers = HeaderBlock(CallHeaders());
  const std::string malformed =
      "status 3: the message is not a dunlin.v1.GenerateRequest: it is malformed, or one of its strings is not UTF-8";
  return {
      "Frames",
      kAttackConfig,
      {},
      {
          {"an HTTP/1.1 request", port, Get("/metrics"), "closed"},
          {"TLS", port, std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + Times(500, "r"), "closed"},
          {"random bytes", port, Times(100, "\x93\x4e\xd1\x07\x8c"), "closed"},
          {"half a preface", port, "PRI * HTTP/2.0\r\n\r\nS", "open"},
          {"a frame of 1 MiB", port, Http2Preface() + Http2Frame(0, 0, 1, Times(1 << 20, "x")), "closed"},
          {"a frame of an unknown type", port, Http2Preface() + Http2Frame(0xfe, 0, 0, "abc"), "open"},
          {"settings of a wrong length", port, Http2Preface() + Http2Frame(4, 0, 0, "abc"), "closed"},
          {"a window of nothing", port, Http2Preface() + Http2Frame(8, 0, 0, std::string(4, '\0')), "closed"},
          {"data of a stream that is not there", port, Http2Preface() + Http2Frame(0, 0, 7, "abc"), "open"},
          {"headers of a stream with an even number", port, Http2Preface() + Http2Frame(1, kEndHeaders, 2, headers),
           "open"},
          {"headers that are not HPACK", port, Http2Preface() + Http2Frame(1, kEndHeaders, 1, Times(50, "\xff")),
           "status 14: Failed parsing HTTP/2"},
          {"a header of 4 GiB", port,
           Http2Preface() + Http2Frame(1, kEndHeaders, 1, std::string("\x00\x7f\xff\xff\xff\xff\x0f", 7)),
           "status 14: Failed parsing HTTP/2"},
          {"no method", port, Call(CallHeaders({}, ":method")), "status 2: Missing :method header"},
          {"no path", port, Call(CallHeaders({}, ":path")), "status 2: Missing :path header"},
          {"no te", port, Call(CallHeaders({}, "te")), "status 2: Missing :te header"},
          {"another te", port, Call(CallHeaders({{"te", "x"}}, "te")), "status 2: Bad :te header"},
          {"another scheme", port, Call(CallHeaders({{":scheme", "x"}}, ":scheme")), "status 2: Bad :scheme header"},
          {"no content type", port, Call(CallHeaders({}, "content-type")), "status 0: "},
          {"a content type of JSON", port, Call(CallHeaders({{"content-type", "application/json"}}, "content-type")),
           "status 0: "},
          {"GET", port, Call(CallHeaders({{":method", "GET"}}, ":method")), "status 2: Bad method header"},
          {"a prefix that says more than there is", port, Http2Call(CallHeaders(), Prefixed(0, 1000, "abc")),
           malformed},
          {"a prefix that says less than there is", port, Http2Call(CallHeaders(), Prefixed(0, 1, "abc")), malformed},
          {"a prefix cut off", port, Http2Call(CallHeaders(), std::string("\0\0\0", 3)), malformed},
          {"a prefix of 4 GiB", port, Http2Call(CallHeaders(), Prefixed(0, 0xffffffff, "abc")), malformed},
          {"a flag that is neither 0 nor 1", port, Http2Call(CallHeaders(), Prefixed(2, 3, "abc")),
           "status 3: model is empty; limit is the name of a served model"},
          {"compressed without a compression", port, Http2Call(CallHeaders(), Prefixed(1, 3, "abc")), malformed},
          {"an unknown compression", port, Http2Call(CallHeaders({{"grpc-encoding", "brotli"}}), Prefixed(1, 3, "abc")),
           malformed},
          {"no message", port, Http2Call(CallHeaders(), ""), malformed},
          {"two messages", port, Http2Call(CallHeaders(), Body() + Body()), "status 0: "},
      }};
}

Group FloodRows() {
  const auto port = Port::kGrpc;
  return {"Floods",
          kAttackConfig,
          {},
          {
              {"fifty continuations", port, Continuations(50), "open"},
              {"twenty thousand continuations", port, Continuations(20000), "closed"},
              {"a thousand pings", port, Pings(1000), "closed"},
              {"ten thousand settings", port, Settings(10000), "open"},
          }};
}

Group ResetRows() {
  const ConnectionRow row = {"ten thousand calls", Port::kGrpc, RapidResets(10000), "open|closed|status 1: CANCELLED"};
  return {"Resets", kAttackConfig, {}, {row}, /*fills_the_server=*/true};
}

Group TimeoutRows() {
  const auto port = Port::kGrpc;
  // gRPC says so or the server, whichever is first; before the deadline, which gRPC rounds up to a millisecond, the
  // server that it would be missed.
  const std::string late =
      "status 4: Deadline Exceeded|status 4: the deadline passed before the output was complete|"
      "status 8: the output would be complete after ~ ms, beside ~ sequences that run and behind ~ that wait; the "
      "deadline is in ~ ms";
  const std::string none = "status 0: ";  // what gRPC cannot read counts as no deadline
  return {"Timeouts",
          kAttackConfig,
          {},
          {
              {"of a nanosecond", port, Late("1n"), late},
              {"of nothing", port, Late("0n"), late},
              {"of zero hours", port, Late("0H"), late},
              {"negative", port, WithTimeout("-1S"), none},
              {"of eight digits of hours", port, WithTimeout("99999999H"), none},
              {"of twenty digits", port, WithTimeout("99999999999999999999S"), none},
              {"without a unit", port, WithTimeout("5"), none},
              {"of an unknown unit", port, WithTimeout("5x"), none},
              {"of words", port, WithTimeout("soon"), none},
              {"empty", port, WithTimeout(""), none},
              {"given twice", port, Call(CallHeaders({{"grpc-timeout", "1n"}, {"grpc-timeout", "5S"}})), none},
          }};
}

}  // namespace dunlin::integration
