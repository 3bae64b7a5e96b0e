// SPDX-License-Identifier: Apache-2.0
// Which requests the HTTP port refuses, with which status, and where one request ends and the next one begins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "server/transport/http/request_head.h"
#include "tests/server/transport/http/http_fixture.h"

namespace dunlin::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Refusal {
  std::string bytes;
  const char* status;
};

class HttpRequests : public HttpFixture {
 protected:
  HttpRequests() { Start(); }

  void ExpectRefusals(const std::vector<Refusal>& refusals) {
    for (const Refusal& refusal : refusals) {
      const std::string answer = Send(refusal.bytes);
      EXPECT_THAT(answer, StartsWith(std::string("HTTP/1.1 ") + refusal.status)) << refusal.bytes.substr(0, 80);
      EXPECT_THAT(answer, HasSubstr("Connection: close\r\n")) << refusal.bytes.substr(0, 80);
      EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << "a second answer to " << refusal.bytes.substr(0, 80);
    }
    EXPECT_THAT(Send("GET /plain HTTP/1.1\r\nConnection: close\r\n\r\n"), EndsWith("\r\n\r\nplain\n")) << "it goes on";
  }
};

TEST_F(HttpRequests, AreCountedByRouteAndStatus) {
  for (const char* request : {"GET /items/a", "GET /items/b", "GET /nope", "POST /plain", "HEAD /plain"}) {
    Send(std::string(request) + " HTTP/1.1\r\nConnection: close\r\n\r\n");
  }
  Send("no request\r\n\r\n");
  Send("POST /calls HTTP/1.1\r\nContent-Length: 1001\r\n\r\n");
  RawClient client = Connect();
  client.Send("POST /calls HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
  const auto exchange = Handler(0)->WaitForExchange();
  exchange->Begin({200, "text/event-stream", "first"}, "");
  client.ReadUntil("first");
  exchange->End("");
  const std::map<std::string, int> expected = {{"/items/{name} 200", 2}, {"other 404", 1},  {"other 405", 1},
                                               {"other 400", 1},         {"/plain 200", 1}, {"/calls 413", 1},
                                               {"/calls 200", 1}};
  EXPECT_EQ(responses(), expected);
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
}

TEST_F(HttpRequests, AreRefusedInTheWordsOfTheirRoute) {
  EXPECT_THAT(Send("GET /plain HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("Content-Type: application/json\r\n"),
                    EndsWith("{\"refused\":\"this path takes no body\"}")));
}

TEST_F(HttpRequests, WhosePathNothingHasAreToldWhichOneIsNear) {
  const auto body = [this](const std::string& path, const std::string& header = "") {
    const std::string answer =
        Send("POST " + path + " HTTP/1.1\r\nContent-Length: 0\r\n" + header + "Connection: close\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 404 ")) << path;
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  EXPECT_EQ(body("/v1/calls"), "not found: nothing is served at /v1/calls; /calls is\n");
  EXPECT_EQ(body("/calls/"), "not found: nothing is served at /calls/; /calls is\n");
  EXPECT_EQ(body("/v1/plain"), R"({"unknown":"not found: nothing is served at /v1/plain; /plain is"})");
  EXPECT_EQ(body("/plain/more"), R"({"unknown":"not found: nothing is served at /plain/more"})") << "below its path";
  EXPECT_EQ(body("/plainer"), "not found: nothing is served at /plainer\n");
  EXPECT_EQ(body("/v1/calls", "Plain-Version: 1\r\n"),
            R"({"unknown":"not found: nothing is served at /v1/calls; /calls is"})");
  EXPECT_EQ(body("/cal%22"), "not found: nothing is served at /cal%22\n");
  EXPECT_EQ(body("/"), "not found: nothing is served at /\n");
  EXPECT_EQ(body("/lls"), "not found: nothing is served at /lls\n") << "no part of a segment";
  EXPECT_THAT(body("/" + std::string(1000, 'a')), testing::SizeIs(testing::Lt(200U)));
}

TEST_F(HttpRequests, AreAnsweredByMethodAndPath) {
  ExpectRefusals({
      {"GET /nope HTTP/1.1\r\nConnection: close\r\n\r\n", "404 "},
      {"GET /items/ HTTP/1.1\r\nConnection: close\r\n\r\n", "404 "},
      {"GET /items/a%2 HTTP/1.1\r\nConnection: close\r\n\r\n", "400 "},
      {"GET /items/a%00b HTTP/1.1\r\nConnection: close\r\n\r\n", "400 "},
      {"BREW /plain HTTP/1.1\r\nConnection: close\r\n\r\n", "501 "},
      {"GET /plain HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", "413 "},
      {"GET /plain HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "413 "},
      {"POST /calls HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "413 "},
      {"POST /calls HTTP/1.1\r\nContent-Length: 3\r\nExpect: money\r\n\r\n", "417 "},
  });
  EXPECT_THAT(Send("POST /plain HTTP/1.1\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD, OPTIONS\r\n"),
                    EndsWith(R"({"refused":"method not allowed; allowed: GET, HEAD, OPTIONS"})")));
  EXPECT_THAT(Send("GET /calls HTTP/1.1\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: POST, OPTIONS\r\n")));
  EXPECT_THAT(Send("GET /calls HTTP/1.1\r\nConnection: Upgrade, close\r\nUpgrade: WebSocket\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 426 "), HasSubstr("Upgrade: HTTP/1.1\r\n"),
                    EndsWith("there are no WebSockets here; allowed, over HTTP/1.1: POST, OPTIONS\n")));
  EXPECT_THAT(Send("GET /plain HTTP/1.1\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\nplain\n")))
      << "an upgrade is an offer";
  EXPECT_THAT(Send("OPTIONS /calls HTTP/1.1\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 204 "), HasSubstr("Allow: POST, OPTIONS\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(Send("OPTIONS * HTTP/1.1\r\nConnection: close\r\n\r\n"), StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(Send("GET /items/a%2Fb%20c/d?x=1 HTTP/1.1\r\nConnection: close\r\n\r\n"), EndsWith("\r\n\r\na/b c/d\n"));
  EXPECT_THAT(Send("GET http://localhost:1/plain HTTP/1.1\r\nConnection: close\r\n\r\n"), EndsWith("\r\n\r\nplain\n"));
  EXPECT_THAT(Send("HEAD /plain HTTP/1.1\r\nConnection: close\r\n\r\n"),
              AllOf(HasSubstr("Content-Length: 6\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpRequests, AreRefusedWhenTheyAreMalformedOrTooLong) {
  ExpectRefusals({
      {"not http at all\r\n\r\n", "400 "},
      {"GET /plain HTTP/2.0\r\n\r\n", "400 "},
      {"GET /plain HTTP/1.1\r\nX: " + std::string(kMaxHttpHeaderBytes, 'a') + "\r\n\r\n", "431 "},
      {"GET /" + std::string(kMaxHttpHeaderBytes, 'a') + " HTTP/1.1\r\n\r\n", "414 "},
      {"GET /" + std::string(kMaxHttpTargetBytes, 'a') + " HTTP/1.1\r\n\r\n", "414 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "400 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n", "413 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "400 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", "400 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;x=" + std::string(21'000, 'a'), "431 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(21'000, 'a'), "431 "},
  });
}

// A connection of which each read brings `piece` bytes.
std::string SendInPieces(RawClient client, const std::string& request, size_t piece) {
  for (size_t at = 0; at < request.size(); at += piece) {
    if (at > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    client.Send(request.substr(at, piece));
  }
  return client.ReadAll();
}

TEST_F(HttpRequests, MayHaveTheirLastChunkInAnyPieces) {
  const std::string head = "POST /calls HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::vector<std::pair<std::string, const char*>> bodies = {
      {"0\r\n\r\n", ""}, {"0\r\nT: u\r\n\r\n", ""}, {"000;x\r\n\r\n", ""}, {"3\r\nabc\r\n0\r\n\r\n", "abc"}};
  size_t handler = 0;
  for (const size_t piece : {1U, 2U, 3U, 4U}) {
    for (const auto& [body, whole] : bodies) {
      SCOPED_TRACE(body + " in pieces of " + std::to_string(piece));
      std::thread answer([&] { Handler(handler)->WaitForExchange()->Respond({200, kPlainText, "whole\n"}); });
      EXPECT_THAT(SendInPieces(Connect(), head + body, piece), EndsWith("whole\n"));
      answer.join();
      EXPECT_EQ(Handler(handler++)->seen().body, whole);
    }
    EXPECT_THAT(SendInPieces(Connect(), head + "0\r\nabc\r\n\r\n", piece), StartsWith("HTTP/1.1 400 ")) << piece;
    ++handler;
  }
}

// A request of so many bytes up to and with the empty line, in fields of a few bytes.
std::string RequestOfSize(size_t size) {
  const std::string end = "\r\n\r\n";
  std::string request = "GET /plain HTTP/1.1\r\nConnection: close";
  while (request.size() + 100 < size) request += "\r\nA: 1";
  request += "\r\nX:";
  return request + std::string(size - request.size() - end.size(), 'x') + end;
}

TEST_F(HttpRequests, HaveAHeaderOfSixteenKibibytesAtMostInHoweverManyPieces) {
  for (const size_t piece : {kMaxHttpHeaderBytes, 16000U, 1000U}) {
    const auto send = [this, piece](size_t size) { return SendInPieces(Connect(), RequestOfSize(size), piece); };
    EXPECT_THAT(send(kMaxHttpHeaderBytes), HasSubstr(" 200 OK")) << piece;
    EXPECT_THAT(send(kMaxHttpHeaderBytes + 1), HasSubstr(" 431 ")) << piece;
    EXPECT_THAT(send(kMaxHttpHeaderBytes + 3000), HasSubstr(" 431 ")) << piece;
  }
}

// Whatever a proxy may read differently: the place where a body ends is given once, in one way, or the request is
// refused and the connection ends.
TEST_F(HttpRequests, CannotSmuggleASecondOne) {
  const std::string hidden = "GET /plain HTTP/1.1\r\n\r\n";
  ExpectRefusals({
      {"POST /calls HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 23\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nContent-Length: 23\r\nContent-Length: 23\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nContent-Length: 0, 0\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nContent-Length: +3\r\n\r\nabc" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nContent-Length: -1\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nContent-Length: 0x3\r\n\r\nabc" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nContent-Length : 3\r\n\r\nabc" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n" + hidden, "501 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden, "501 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, "501 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n" + hidden, "400 "},
      {"GET /plain HTTP/1.1\nHost: x\n\n" + hidden, "400 "},
      {"GET /plain HTTP/1.1\r\nHost: x\nX: y\r\n\r\n" + hidden, "400 "},
      {"GET /plain HTTP/1.1\r\nX: a\rb\r\n\r\n" + hidden, "400 "},
      {"POST /calls HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\n\r\n" + hidden, "400 "},
  });
}

// A folded line is part of the field before it (RFC 9112, 5.2): here a coding, so that the body has chunks.
TEST_F(HttpRequests, ReadFoldedFieldsAsOne) {
  RawClient client = Connect();
  client.Send("POST /calls HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  Handler(0)->WaitForExchange()->Respond({200, kPlainText, "whole\n"});
  EXPECT_THAT(client.ReadReply(), EndsWith("whole\n"));
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
  EXPECT_EQ(Handler(0)->seen().body, "abc");
}

TEST_F(HttpRequests, OfOneConnectionAreAnsweredInTheirOrder) {
  RawClient client = Connect();
  client.Send(
      "POST /calls HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /plain HTTP/1.1\r\n\r\nPOST /calls HTTP/1.1\r\n");
  const auto first = Handler(0);
  const auto exchange = first->WaitForExchange();
  EXPECT_FALSE(client.HasInput(50)) << "the second waits for the first";
  exchange->Respond({200, kPlainText, "first\n"});
  EXPECT_THAT(client.ReadReply(), EndsWith("first\n"));
  EXPECT_THAT(client.ReadReply(), EndsWith("plain\n"));
  client.Send("Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3;x=y\r\ndef\r\n0\r\nT: u\r\n\r\n");
  Handler(1)->WaitForExchange()->Respond({200, kPlainText, "third\n"});
  EXPECT_THAT(client.ReadAll(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("third\n")));
  EXPECT_TRUE(Handler(1)->WaitUntilDone());
  EXPECT_EQ(first->seen().body, "abc");
  EXPECT_EQ(first->seen().admitted_bytes, 3U);
  EXPECT_EQ(Handler(1)->seen().body, "def");
  EXPECT_EQ(Handler(1)->seen().admitted_bytes, 0U) << "the length was not known";
  EXPECT_EQ(Handler(1)->seen().body_bytes, 3U);
}

TEST_F(HttpRequests, OfVersion10EndTheirConnectionUnlessTheyAskToKeepIt) {
  EXPECT_THAT(Send("GET /plain HTTP/1.0\r\n\r\n"), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("plain\n")));
  EXPECT_THAT(Send("GET /plain HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /plain HTTP/1.0\r\n\r\n"),
              AllOf(HasSubstr("Connection: keep-alive\r\n"), HasSubstr("plain\nHTTP/1.1 200"), EndsWith("plain\n")));
}

TEST_F(HttpRequests, GetTheWordToContinueOnceTheyAreAdmitted) {
  RawClient client = Connect();
  client.Send("POST /calls HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadHeader(), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  Handler(0)->WaitForExchange()->Respond({200, kPlainText, "ok\n"});
  EXPECT_THAT(client.ReadReply(), AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("ok\n")));
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
}

TEST_F(HttpRequests, AreRefusedByTheirHandlerBeforeTheirBodyIsRead) {
  refusal_ = HttpReply{429, kPlainText, "later\n", {{"Retry-After", "1"}}};
  EXPECT_THAT(Send("POST /calls HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("Retry-After: 1\r\n"), HasSubstr("Connection: close"),
                    Not(HasSubstr("100 Continue")), EndsWith("later\n")));
  RawClient client = Connect();
  client.Send("POST /calls HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /plain HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.ReadReply(), AllOf(StartsWith("HTTP/1.1 429 "), Not(HasSubstr("Connection: close"))));
  EXPECT_THAT(client.ReadReply(), EndsWith("plain\n")) << "a body that has come is skipped";
}

TEST_F(HttpRequests, AreRefusedByTheirHandlerWhileTheirBodyComes) {
  max_body_bytes_ = 5;
  RawClient client = Connect();
  client.Send("POST /calls HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc");
  const auto handler = Handler(0);
  EXPECT_TRUE(handler->WaitUntil([](const RecordingHandler::Seen& seen) { return seen.body_bytes == 3; }));
  client.Send("def" + std::string(94, 'x') + "GET /plain HTTP/1.1\r\n\r\n");
  const std::string answer = client.ReadAll();
  EXPECT_THAT(answer,
              AllOf(StartsWith("HTTP/1.1 429 "), HasSubstr("Connection: close\r\n"), EndsWith("\r\n\r\nfull\n")));
  EXPECT_EQ(answer.rfind("HTTP/1.1"), 0U) << "the rest is no request";
  EXPECT_EQ(handler->seen().exchange, nullptr);
}

TEST_F(HttpRequests, GetNoCorsHeadersByDefault) {
  EXPECT_THAT(Send("GET /plain HTTP/1.1\r\nOrigin: https://a.example\r\nConnection: close\r\n\r\n"),
              Not(HasSubstr("Access-Control")));
}

TEST_F(HttpRequests, FromAllowedOriginsGetCorsHeaders) {
  Start({}, {"https://a.example"});
  EXPECT_THAT(Send("GET /plain HTTP/1.1\r\nOrigin: https://a.example\r\nConnection: close\r\n\r\n"),
              AllOf(HasSubstr("Access-Control-Allow-Origin: https://a.example\r\n"), HasSubstr("Vary: Origin\r\n")));
  EXPECT_THAT(Send("GET /plain HTTP/1.1\r\nOrigin: https://b.example\r\nConnection: close\r\n\r\n"),
              AllOf(Not(HasSubstr("Access-Control")), HasSubstr("Vary: Origin\r\n")));
  EXPECT_THAT(Send("OPTIONS /calls HTTP/1.1\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n"
                   "Access-Control-Request-Headers: content-type, x-y\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 204 "), HasSubstr("Access-Control-Allow-Methods: POST, OPTIONS\r\n"),
                    HasSubstr("Access-Control-Allow-Headers: content-type, x-y\r\n")));
  EXPECT_THAT(Send("OPTIONS /items/x HTTP/1.1\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n"
                   "Connection: close\r\n\r\n"),
              Not(HasSubstr("Access-Control-Allow-Methods")))
      << "a route that takes no preflight";
}

// Without them a page sees no status and no message, only that the request failed.
TEST_F(HttpRequests, GetCorsHeadersWithEveryErrorToo) {
  Start({}, {"https://a.example"});
  const std::vector<Refusal> refusals = {
      {"GET /plain HTTP/1.1\r\n@Connection: close\r\n\r\n", "200"},
      {"GET /items/x HTTP/1.1\r\n@Connection: close\r\n\r\n", "200"},
      {"GET /nope HTTP/1.1\r\n@Connection: close\r\n\r\n", "404"},
      {"POST /plain HTTP/1.1\r\n@Connection: close\r\n\r\n", "405"},
      {"GET /items/%zz HTTP/1.1\r\n@Connection: close\r\n\r\n", "400"},
      {"POST /calls HTTP/1.1\r\n@Content-Length: 1001\r\n\r\n", "413"},
      {"POST /calls HTTP/1.1\r\n@Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n", "415"},
      {"POST /calls HTTP/1.1\r\n@Content-Length: 3\r\nContent-Length: 4\r\n\r\n", "400"},
      {"GET /plain HTTP/1.1\r\n@Transfer-Encoding: gzip\r\n\r\n", "501"},
      {"GET /plain HTTP/1.1\r\n@X: " + std::string(kMaxHttpHeaderBytes, 'x') + "\r\n\r\n", "431"},
      {"POST /calls HTTP/1.1\r\n@Transfer-Encoding: chunked\r\n\r\nno chunk\r\n", "400"},
  };
  for (const Refusal& refusal : refusals) {
    std::string bytes = refusal.bytes;
    bytes.replace(bytes.find('@'), 1, "Origin: https://a.example\r\nContent-Type: application/json\r\n");
    const std::string shown = bytes.substr(0, 100);
    const std::string answer = Send(bytes);
    EXPECT_THAT(answer, StartsWith(std::string("HTTP/1.1 ") + refusal.status)) << shown;
    EXPECT_THAT(answer, HasSubstr("Access-Control-Allow-Origin: https://a.example\r\n")) << shown;
  }
  refusal_ = HttpReply{503, kPlainText, "later\n", {{"Retry-After", "1"}}};
  EXPECT_THAT(Send("POST /calls HTTP/1.1\r\nOrigin: https://a.example\r\nContent-Type: application/json\r\n"
                   "Content-Length: 0\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Access-Control-Allow-Origin: https://a.example\r\n"),
                    HasSubstr("Access-Control-Expose-Headers: retry-after, ")));
}

}  // namespace
}  // namespace dunlin::server
