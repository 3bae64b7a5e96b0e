// SPDX-License-Identifier: Apache-2.0
// Responses that come piece by piece, clients that go away or stand still, and the drain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/server/transport/http/http_fixture.h"

namespace dunlin::server {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Seen = RecordingHandler::Seen;

const std::string kCall = "POST /calls HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";

class HttpStreams : public HttpFixture {
 protected:
  static HttpReply Head(std::string first = "") { return {200, "text/event-stream", std::move(first)}; }

  static bool WritesDone(const RecordingHandler& handler, int count) {
    return handler.WaitUntil([count](const Seen& seen) { return seen.writes_done == count; });
  }
  static bool Cancelled(const RecordingHandler& handler) {
    return handler.WaitUntil([](const Seen& seen) { return seen.cancelled; });
  }
};

// Begins its stream on the HTTP thread and ends it on another one before that thread goes on.
class TwoThreadHandler final : public HttpHandler {
 public:
  std::optional<HttpReply> Admit(const HttpRequest& /*request*/, size_t /*body_bytes*/) override {
    return std::nullopt;
  }
  void Start(std::shared_ptr<HttpExchange> exchange, std::string /*body*/) override {
    exchange->Begin({200, "text/event-stream", "first"}, "");
    std::thread([&exchange] { exchange->End("last"); }).join();
  }
  void OnWriteDone(bool /*ok*/) override {}
  void OnCancel() override {}
  void OnDone() override {}
};

TEST_F(HttpStreams, KeepTheOrderOfCallsOnSeveralThreads) {
  HttpServerOptions options;
  options.connections = {4, 4};
  HttpRoute route{"GET", "/two"};
  route.open = [] { return std::make_shared<TwoThreadHandler>(); };
  options.routes = {route};
  server_ = *HttpServer::Start("127.0.0.1:0", std::move(options));
  EXPECT_THAT(Send("GET /two HTTP/1.1\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n")));
}

TEST_F(HttpStreams, AreChunked) {
  Start();
  RawClient client = Connect();
  client.Send(kCall + kCall);
  const auto handler = Handler(0);
  const auto exchange = handler->WaitForExchange();
  exchange->Begin(Head("data: 1\n\n"), "");
  EXPECT_THAT(client.ReadHeader(),
              AllOf(HasSubstr("Transfer-Encoding: chunked\r\n"), Not(HasSubstr("Content-Length"))));
  EXPECT_EQ(client.ReadUntil("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  EXPECT_TRUE(WritesDone(*handler, 1));
  exchange->Write("data: 2\n\n");
  EXPECT_EQ(client.ReadUntil("\n\n\r\n"), "9\r\ndata: 2\n\n\r\n");
  EXPECT_TRUE(WritesDone(*handler, 2));
  exchange->Write("3");
  exchange->End("4");
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "1\r\n3\r\n1\r\n4\r\n0\r\n\r\n");
  EXPECT_TRUE(handler->WaitUntilDone());
  EXPECT_EQ(handler->seen().writes_done, 3);
  EXPECT_FALSE(handler->seen().cancelled);
  Handler(1)->WaitForExchange()->Respond({200, kPlainText, "next\n"});
  EXPECT_THAT(client.ReadReply(), EndsWith("next\n")) << "the connection goes on";
  EXPECT_TRUE(Handler(1)->WaitUntilDone());
}

TEST_F(HttpStreams, OfVersion10EndWithTheConnection) {
  Start();
  RawClient client = Connect();
  client.Send("POST /calls HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n");
  const auto exchange = Handler(0)->WaitForExchange();
  exchange->Begin(Head("data: 1\n\n"), "");
  exchange->End("data: 2\n\n");
  EXPECT_THAT(client.ReadAll(), AllOf(HasSubstr("Connection: close\r\n"), Not(HasSubstr("chunked")),
                                      EndsWith("\r\n\r\ndata: 1\n\ndata: 2\n\n")));
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
}

TEST_F(HttpStreams, SendTheirIdleTextWhileNothingComes) {
  HttpTimeouts timeouts;
  timeouts.stream_idle = milliseconds(100);
  Start(timeouts);
  RawClient client = Connect();
  client.Send(kCall);
  const auto exchange = Handler(0)->WaitForExchange();
  exchange->Begin(Head(), ": idle\n\n");
  client.ReadHeader();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.ReadUntil("\n\n\r\n"), "8\r\n: idle\n\n\r\n");
  exchange->End("");
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
  EXPECT_EQ(Handler(0)->seen().writes_done, 1) << "idle texts are not the handler's writes";
}

TEST_F(HttpStreams, AreCancelledWhenTheClientGoesAwayBeforeTheyBegin) {
  Start();
  RawClient client = Connect();
  client.Send(kCall);
  const auto exchange = Handler(0)->WaitForExchange();
  client.Close();
  EXPECT_TRUE(Cancelled(*Handler(0)));
  EXPECT_FALSE(Handler(0)->seen().done) << "not before the handler has ended its response";
  exchange->Respond({200, kPlainText, "to nobody\n"});
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
}

TEST_F(HttpStreams, AreCancelledWhenTheClientClosesItsSide) {
  Start();
  RawClient client = Connect();
  client.Send(kCall);
  const auto exchange = Handler(0)->WaitForExchange();
  exchange->Begin(Head("data: 1\n\n"), "");
  client.ReadUntil("\n\n\r\n");
  client.ShutdownSend();
  EXPECT_TRUE(Cancelled(*Handler(0)));
  exchange->Write("data: 2\n\n");
  EXPECT_TRUE(Handler(0)->WaitUntil([](const Seen& seen) { return seen.writes_failed == 1; }));
  exchange->End("");
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
}

// What is answered at once is answered, whether or not the client has closed its side.
TEST_F(HttpStreams, OfOneAnswerReachAClientThatHasClosedItsSide) {
  Start();
  RawClient client = Connect();
  client.Send("GET /plain HTTP/1.1\r\n\r\n");
  client.ShutdownSend();
  EXPECT_THAT(client.ReadAll(), EndsWith("plain\n"));
}

TEST_F(HttpStreams, ThatNobodyReadsAreAbortedByTheirHandler) {
  Start();
  RawClient client = Connect(4096);
  client.Send(kCall);
  const auto exchange = Handler(0)->WaitForExchange();
  exchange->Begin(Head(std::string(4 << 20, 'x')), "");
  ASSERT_TRUE(client.HasInput(20000));
  EXPECT_EQ(Handler(0)->seen().writes_done, 0) << "the sockets' buffers hold less";
  exchange->Abort();
  EXPECT_TRUE(Handler(0)->WaitUntil([](const Seen& seen) { return seen.cancelled && seen.writes_failed == 1; }));
  exchange->End("");
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
}

TEST_F(HttpStreams, OfOneDocumentAreCutOffAfterTheWriteTimeout) {
  HttpTimeouts timeouts;
  timeouts.write = milliseconds(200);
  Start(timeouts);
  RawClient client = Connect(4096);
  client.Send(kCall);
  Handler(0)->WaitForExchange()->Respond({200, kPlainText, std::string(4 << 20, 'x')});
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
  EXPECT_FALSE(Handler(0)->seen().cancelled) << "its response had ended";
}

// The body's deadline moves with what has come, but a client that dribbles bytes is cut off all the same.
TEST_F(HttpStreams, OfSlowBodiesAreCutOff) {
  HttpTimeouts timeouts;
  timeouts.read = milliseconds(200);
  Start(timeouts);
  RawClient client = Connect();
  client.Send("POST /calls HTTP/1.1\r\nContent-Length: 900\r\n\r\n");
  const auto handler = Handler(0);
  int sent = 0;
  for (; sent < 900 && !client.HasInput(10); ++sent) client.Send("a");
  EXPECT_LT(sent, 900);
  EXPECT_GT(sent, 1);
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(handler->seen().exchange, nullptr);
}

// What came fast earns no time: else the last byte could be kept back for minutes.
TEST_F(HttpStreams, OfBodiesThatStopAreCutOffHoweverFastTheyBegan) {
  HttpTimeouts timeouts;
  timeouts.read = milliseconds(200);
  Start(timeouts, {}, {}, 4 << 20);
  RawClient client = Connect();
  client.Send("POST /calls HTTP/1.1\r\nContent-Length: 4194304\r\n\r\n" + std::string((4 << 20) - 1, 'x'));
  const auto handler = Handler(0);
  const auto sent = std::chrono::steady_clock::now();
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 408 "));
  EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(10));
  EXPECT_EQ(handler->seen().exchange, nullptr);
}

TEST_F(HttpStreams, EndWithTheirConnectionWhileTheServerDrains) {
  Start();
  RawClient idle = Connect();
  idle.Send("GET /plain HTTP/1.1\r\n\r\n");
  EXPECT_THAT(idle.ReadReply(), Not(HasSubstr("Connection: close")));
  RawClient streaming = Connect();
  streaming.Send(kCall + kCall);
  const auto stream = Handler(0)->WaitForExchange();
  stream->Begin(Head("1"), "");
  streaming.ReadUntil("1\r\n1\r\n");
  RawClient waiting = Connect();
  waiting.Send(kCall);
  const auto call = Handler(1)->WaitForExchange();

  server_->StartDraining();
  EXPECT_EQ(idle.ReadAll(), "") << "closed at once";
  call->Respond({200, kPlainText, "whole\n"});
  EXPECT_THAT(waiting.ReadAll(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("whole\n")));
  stream->End("2");
  EXPECT_EQ(streaming.ReadAll(), "1\r\n2\r\n0\r\n\r\n") << "and no answer to what was sent ahead";
  EXPECT_THAT(Send("GET /plain HTTP/1.1\r\n\r\n"), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("plain\n")));
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
  EXPECT_TRUE(Handler(1)->WaitUntilDone());
}

TEST_F(HttpStreams, AreAbortedWhenTheDrainIsOver) {
  Start();
  RawClient client = Connect();
  client.Send(kCall);
  const auto exchange = Handler(0)->WaitForExchange();
  RawClient half = Connect();
  half.Send("POST /calls HTTP/1.1\r\nContent-Length: 3\r\n\r\na");
  Handler(1);
  server_->AbortExchangesAfter(milliseconds(50));
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_EQ(half.ReadAll(), "");
  EXPECT_TRUE(Cancelled(*Handler(0)));
  exchange->Respond({200, kPlainText, "too late\n"});
  EXPECT_TRUE(Handler(0)->WaitUntilDone());
}

}  // namespace
}  // namespace dunlin::server
