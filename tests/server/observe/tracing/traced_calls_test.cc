// SPDX-License-Identifier: Apache-2.0
// Calls of a running edge, and the spans that a collector gets of them.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "dunlin/v1/embedding.grpc.pb.h"
#include "server/observe/tracing/otlp_client.h"
#include "server/observe/tracing/span_exporter.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "tests/server/observe/tracing/attributes.h"
#include "tests/server/observe/tracing/fake_collector.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::server {
namespace {

using Span = FakeCollector::Span;
using Metadata = std::vector<std::pair<std::string, std::string>>;

constexpr char kTraceId[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kParentId[] = "b7ad6b7169203331";

std::string Parent(const std::string& flags) {
  return std::string("00-") + kTraceId + "-" + kParentId + "-" + flags;
}

std::string Hex(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

class TracedCalls : public ::testing::Test {
 protected:
  TracedCalls() {
    OtlpClientOptions client;
    client.address = collector_.address();
    SpanExporterOptions options;
    options.batch_delay = absl::Milliseconds(1);
    exporter_ = std::make_unique<SpanExporter>(options, NewOtlpClient(client));
    EdgeOptions edge;
    edge.serving.traces = true;
    edge.http.emplace();
    edge.http->address = "127.0.0.1:0";
    edge.http->sources = {[] { return std::string(); }, [] { return std::string(); }, [] { return std::string(); }};
    const auto port = edge_.Start("127.0.0.1:0", Limits(), &models_.repository(), exporter_.get(), edge);
    EXPECT_TRUE(port.ok()) << port.status();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(*port), grpc::InsecureChannelCredentials());
    edge_.SetServing(true);
  }
  ~TracedCalls() override { edge_.Shutdown(absl::Now() + absl::Seconds(5)); }

  Reply Generate(const v1::GenerateRequest& request, const Metadata& metadata) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
    for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
    const auto stub = v1::GenerationService::NewStub(channel_);
    const auto reader = stub->Generate(&context, request);
    Reply reply;
    ReadAll(reader.get(), &context, &reply);
    return reply;
  }

  FakeCollector collector_;
  std::unique_ptr<SpanExporter> exporter_;
  TestModels models_{engine::EngineOptions()};
  Edge edge_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(TracedCalls, AreChildrenOfTheClientsSpan) {
  v1::GenerateRequest request = TextRequest("abc", 5);
  request.set_request_id("mine");
  const auto begin = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  ASSERT_TRUE(
      Generate(request, {{"traceparent", Parent("01")}, {"tracestate", "a=b"}, {"tracestate", "c=d"}}).status.ok());
  const Span span = collector_.WaitFor(1).at(0);
  const auto end = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  EXPECT_EQ(Hex(span.trace_id()), kTraceId);
  EXPECT_EQ(Hex(span.parent_span_id()), kParentId);
  EXPECT_EQ(span.span_id().size(), 8U);
  EXPECT_NE(Hex(span.span_id()), kParentId);
  EXPECT_EQ(span.trace_state(), "a=b,c=d");
  EXPECT_EQ(span.name(), "llm_request");
  constexpr uint64_t kSlack = 5'000'000;  // two clocks
  EXPECT_GE(span.start_time_unix_nano() + kSlack, begin);
  EXPECT_GE(span.end_time_unix_nano(), span.start_time_unix_nano());
  EXPECT_LE(span.end_time_unix_nano(), end + kSlack);
  const auto attributes = AttributesOf(span);
  EXPECT_EQ(attributes.at("gen_ai.request.id"), "mine");
  EXPECT_EQ(attributes.at("gen_ai.response.model"), "tiny");
  EXPECT_EQ(attributes.at("gen_ai.usage.prompt_tokens"), "3");
  EXPECT_EQ(attributes.at("gen_ai.usage.completion_tokens"), "5");
  EXPECT_EQ(attributes.at("gen_ai.request.max_tokens"), "5");
  EXPECT_EQ(attributes.at("gen_ai.request.n"), "1");
  EXPECT_EQ(attributes.at("dunlin.device"), "cpu");
  EXPECT_EQ(attributes.at("dunlin.status"), "OK");
  const auto seconds = [&](const char* key) { return std::stod(attributes.at(key)); };
  EXPECT_NEAR(seconds("gen_ai.latency.time_in_queue") + seconds("gen_ai.latency.time_in_model_prefill"),
              seconds("gen_ai.latency.time_to_first_token"), 1e-4);
  EXPECT_NEAR(seconds("gen_ai.latency.time_to_first_token") + seconds("gen_ai.latency.time_in_model_decode"),
              seconds("gen_ai.latency.e2e"), 1e-4);
  EXPECT_NEAR(seconds("gen_ai.latency.e2e"),
              static_cast<double>(span.end_time_unix_nano() - span.start_time_unix_nano()) * 1e-9, 1e-4);
}

TEST_F(TracedCalls, BeginATraceWhereTheClientsIsInvalid) {
  const std::string invalid[] = {"", "00-" + std::string(32, '0') + "-" + kParentId + "-01", Parent("01") + "-more",
                                 "ff" + Parent("01").substr(2), Parent("0")};
  for (const std::string& parent : invalid) {
    ASSERT_TRUE(Generate(TextRequest("abc", 1), {{"traceparent", parent}, {"tracestate", "a=b"}}).status.ok());
  }
  ASSERT_TRUE(
      Generate(TextRequest("abc", 1), {{"traceparent", Parent("01")}, {"traceparent", Parent("01")}}).status.ok());
  std::set<std::string> traces;
  for (const Span& span : collector_.WaitFor(std::size(invalid) + 1)) {
    EXPECT_EQ(span.parent_span_id(), "");
    EXPECT_EQ(span.trace_state(), "");
    EXPECT_TRUE(traces.insert(span.trace_id()).second);
    EXPECT_NE(Hex(span.trace_id()), kTraceId);
  }
}

TEST_F(TracedCalls, AreNotExportedWhereTheClientDoesNotSample) {
  ASSERT_TRUE(Generate(TextRequest("abc", 1), {{"traceparent", Parent("00")}}).status.ok());
  v1::GenerateRequest sampled = TextRequest("abc", 1);
  sampled.set_request_id("sampled");
  ASSERT_TRUE(Generate(sampled, {{"traceparent", Parent("01")}}).status.ok());
  const std::vector<Span> spans = collector_.WaitFor(1);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(AttributesOf(spans[0]).at("gen_ai.request.id"), "sampled");
}

TEST_F(TracedCalls, SayHowTheyFailed) {
  v1::GenerateRequest request = TextRequest("abc", 1);
  request.set_model("unknown");
  EXPECT_EQ(Generate(request, {{"traceparent", Parent("01")}}).status.error_code(), grpc::StatusCode::NOT_FOUND);
  const Span span = collector_.WaitFor(1).at(0);
  EXPECT_EQ(Hex(span.parent_span_id()), kParentId);
  EXPECT_EQ(AttributesOf(span).at("dunlin.status"), "NOT_FOUND");
  EXPECT_EQ(AttributesOf(span).at("error.type"), "UNKNOWN_MODEL");
}

TEST_F(TracedCalls, RefusedBeforeTheirMessageIsReadHaveNoSpan) {
  edge_.StartDraining();
  EXPECT_EQ(Generate(TextRequest("abc", 1), {{"traceparent", Parent("01")}}).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(exporter_->Flush(absl::Seconds(20)));
  EXPECT_EQ(exporter_->counts().exported + exporter_->counts().dropped, 0U);
}

TEST_F(TracedCalls, EmbedToo) {
  v1::EmbedRequest request;
  request.set_model("encoder");
  request.add_inputs()->set_text("a text");
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  context.AddMetadata("traceparent", Parent("01"));
  v1::EmbedResponse response;
  ASSERT_TRUE(v1::EmbeddingService::NewStub(channel_)->Embed(&context, request, &response).ok());
  const Span span = collector_.WaitFor(1).at(0);
  EXPECT_EQ(Hex(span.trace_id()), kTraceId);
  EXPECT_EQ(Hex(span.parent_span_id()), kParentId);
  EXPECT_EQ(AttributesOf(span).at("dunlin.num_inputs"), "1");
  EXPECT_EQ(AttributesOf(span).at("gen_ai.request.id"), response.request_id());
}

TEST_F(TracedCalls, OverHttpToo) {
  const std::string body = R"({"model": "tiny", "prompt": "abc", "max_tokens": 2})";
  RawClient client(edge_.http_address());
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\nx-request-id: mine\r\ntracestate: a=b\r\ntraceparent: " +
              Parent("01") + "\r\nConnection: close\r\n\r\n" + body);
  const std::string response = client.ReadAll();
  EXPECT_THAT(response, testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(response, testing::HasSubstr("x-request-id: mine\r\n"));
  const Span span = collector_.WaitFor(1).at(0);
  EXPECT_EQ(Hex(span.trace_id()), kTraceId);
  EXPECT_EQ(Hex(span.parent_span_id()), kParentId);
  EXPECT_EQ(span.trace_state(), "a=b");
  EXPECT_EQ(AttributesOf(span).at("gen_ai.request.id"), "mine");
  EXPECT_EQ(AttributesOf(span).at("gen_ai.usage.completion_tokens"), "2");
}

}  // namespace
}  // namespace dunlin::server
