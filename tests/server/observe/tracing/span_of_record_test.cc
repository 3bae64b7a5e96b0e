// SPDX-License-Identifier: Apache-2.0
// Every field of a record against the attribute that shows it: each has another value, so that two that are swapped, or
// one that is left out, give another map.
#include "server/observe/tracing/span_of_record.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "server/serving/record/errors.h"
#include "tests/server/observe/tracing/attributes.h"
#include "tests/server/serving/prime_record.h"

namespace dunlin::server {
namespace {

using otlp::trace::v1::Span;
using otlp::trace::v1::Status;

constexpr SpanIdentity kIdentity = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
                                    {21, 22, 23, 24, 25, 26, 27, 28}};

RequestRecord GenerationRecord() {
  RequestRecord record = PrimeRecord();
  record.request_id = "r1";
  record.trace.emplace();
  return record;
}

TEST(SpanOfRecord, ShowsEveryFieldOfAGeneration) {
  const Span span = SpanOfRecord(GenerationRecord(), kIdentity, 1000 * kSecond);
  EXPECT_EQ(span.name(), "llm_request");
  EXPECT_EQ(span.kind(), Span::SPAN_KIND_SERVER);
  EXPECT_EQ(span.trace_id(), std::string(kIdentity.trace_id.begin(), kIdentity.trace_id.end()));
  EXPECT_EQ(span.span_id(), std::string(kIdentity.span_id.begin(), kIdentity.span_id.end()));
  EXPECT_EQ(span.parent_span_id(), "");
  EXPECT_EQ(span.flags(), 0x101U);
  EXPECT_EQ(span.start_time_unix_nano(), 1047U * kSecond);
  EXPECT_EQ(span.end_time_unix_nano(), 1070U * kSecond);
  EXPECT_EQ(span.status().code(), Status::STATUS_CODE_UNSET);
  const std::map<std::string, std::string> expected = {
      {"gen_ai.request.id", "r1"},
      {"gen_ai.response.model", "m"},
      {"gen_ai.request.n", "2"},
      {"gen_ai.request.max_tokens", "41"},
      {"gen_ai.request.temperature", "0.5"},
      {"gen_ai.request.top_p", "0.75"},
      {"gen_ai.usage.prompt_tokens", "31"},
      {"gen_ai.usage.completion_tokens", "58"},
      {"gen_ai.latency.time_in_queue", "3"},
      {"gen_ai.latency.time_to_first_token", "10"},
      {"gen_ai.latency.time_in_model_prefill", "7"},
      {"gen_ai.latency.time_in_model_decode", "13"},
      {"gen_ai.latency.time_in_model_inference", "20"},
      {"gen_ai.latency.e2e", "23"},
      {"dunlin.cached_tokens", "37"},
      {"dunlin.attention_backend", "math"},
      {"dunlin.precision", "fp8"},
      {"dunlin.device", "cpu"},
      {"dunlin.status", "OK"},
      {"dunlin.finish_reason", "length"},
  };
  EXPECT_EQ(AttributesOf(span), expected);
}

TEST(SpanOfRecord, OfAnEmbeddingHasItsInputs) {
  RequestRecord record = GenerationRecord();
  record.num_inputs = 5;
  record.temperature.reset();
  record.top_p.reset();
  record.first_token = 0;
  const auto attributes = AttributesOf(SpanOfRecord(record, kIdentity, 0));
  EXPECT_EQ(attributes.at("dunlin.num_inputs"), "5");
  EXPECT_EQ(attributes.at("gen_ai.latency.time_in_queue"), "3");
  EXPECT_EQ(attributes.count("gen_ai.usage.completion_tokens"), 0U);
  EXPECT_EQ(attributes.count("gen_ai.request.n"), 0U);
  EXPECT_EQ(attributes.count("gen_ai.latency.time_to_first_token"), 0U);
}

TEST(SpanOfRecord, OfARefusedCallHasNoTimesThatItNeverReached) {
  RequestRecord record;
  record.request_id = "r2";
  record.status = MakeError(Reason::kWrongModelKind, "model is an encoder");
  record.arrival = kSecond;
  record.finished = 2 * kSecond;
  record.trace.emplace();
  const Span span = SpanOfRecord(record, kIdentity, 0);
  const std::map<std::string, std::string> expected = {
      {"gen_ai.request.id", "r2"},
      {"gen_ai.response.model", ""},
      {"gen_ai.usage.prompt_tokens", "0"},
      {"gen_ai.usage.completion_tokens", "0"},
      {"gen_ai.latency.e2e", "1"},
      {"dunlin.cached_tokens", "0"},
      {"dunlin.status", "FAILED_PRECONDITION"},
      {"error.type", "WRONG_MODEL_KIND"},
  };
  EXPECT_EQ(AttributesOf(span), expected);
  EXPECT_EQ(span.status().code(), Status::STATUS_CODE_UNSET) << "the client's fault";
}

TEST(SpanOfRecord, SaysThatTheServerFailed) {
  RequestRecord record = GenerationRecord();
  record.status = MakeError(Reason::kInternal, "the output could not be detokenised");
  Span span = SpanOfRecord(record, kIdentity, 0);
  EXPECT_EQ(span.status().code(), Status::STATUS_CODE_ERROR);
  EXPECT_EQ(span.status().message(), "the output could not be detokenised");
  record.status = absl::InternalError(std::string(10000, 'x'));
  span = SpanOfRecord(record, kIdentity, 0);
  EXPECT_LE(span.status().message().size(), 500U);
}

TEST(SpanOfRecord, ReplacesTextThatIsNoUtf8) {
  RequestRecord record = GenerationRecord();
  record.model = "m\xC3";
  const Span span = SpanOfRecord(record, kIdentity, 0);
  EXPECT_EQ(AttributesOf(span).at("gen_ai.response.model"), "m?");
  Span parsed;
  EXPECT_TRUE(parsed.ParseFromString(span.SerializeAsString()));
}

TEST(SpanOfRecord, NamesTheClientsSpanAsItsParent) {
  RequestRecord record = GenerationRecord();
  record.trace->parent = TraceParent{kIdentity.trace_id, {31, 32, 33, 34, 35, 36, 37, 38}, true};
  record.trace->state = "a=b";
  const Span span = SpanOfRecord(record, kIdentity, 0);
  EXPECT_EQ(span.parent_span_id(), "\x1f !\"#$%&");
  EXPECT_EQ(span.trace_state(), "a=b");
  EXPECT_EQ(span.flags(), 0x301U);
}

}  // namespace
}  // namespace dunlin::server
