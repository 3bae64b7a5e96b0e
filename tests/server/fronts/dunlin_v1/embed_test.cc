// SPDX-License-Identifier: Apache-2.0
// Embed over the wire: what comes back, what is refused and how, cancels and deadlines, full queues, a broken device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "dunlin/v1/embedding.grpc.pb.h"
#include "dunlin/v1/model.grpc.pb.h"
#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using namespace std::chrono_literals;

struct Answer {
  v1::EmbedResponse response;
  grpc::Status status;
  google::rpc::Status details;

  template <class Detail>
  Detail Get() const {
    Detail detail;
    for (const auto& any : details.details()) {
      if (any.UnpackTo(&detail)) return detail;
    }
    return Detail();
  }
  std::string reason() const { return Get<google::rpc::ErrorInfo>().reason(); }
  std::vector<float> vector(int index) const {
    const auto& values = response.embeddings(index).values();
    return {values.begin(), values.end()};
  }
};

Answer Embed(const EdgeServer& edge, const v1::EmbedRequest& request, grpc::ClientContext* context) {
  const auto stub = v1::EmbeddingService::NewStub(edge.channel());
  Answer answer;
  answer.status = stub->Embed(context, request, &answer.response);
  answer.details.ParseFromString(answer.status.error_details());
  return answer;
}

Answer Embed(const EdgeServer& edge, const v1::EmbedRequest& request, std::chrono::milliseconds deadline = 30s) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  return Embed(edge, request, &context);
}

v1::EmbedRequest Texts(const std::vector<std::string>& texts) {
  v1::EmbedRequest request;
  request.set_model("encoder");
  for (const std::string& text : texts) request.add_inputs()->set_text(text);
  return request;
}

double LengthOf(const std::vector<float>& vector) {
  double squares = 0.0;
  for (const float value : vector) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

bool EncoderIdle(const EdgeServer& edge) {
  return Eventually([&] { return edge.model("encoder").encoder->stats().idle; });
}

TEST(Embed, AnswersEveryInputWithTheModelsOwnDefaults) {
  EdgeServer edge;
  v1::EmbedRequest request = Texts({"A dunlin flies.", "", "Many dunlins fly in a flock."});
  request.set_request_id("mine");
  const Answer answer = Embed(edge, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  ASSERT_EQ(answer.response.embeddings_size(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(LengthOf(answer.vector(i)), 1.0, 1e-6);
  EXPECT_EQ(answer.response.embeddings(1).tokens(), 2);   // [CLS] [SEP]
  EXPECT_EQ(answer.response.pooling(), v1::POOLING_CLS);  // 1_Pooling/config.json
  EXPECT_TRUE(answer.response.normalized());              // modules.json
  EXPECT_EQ(answer.response.execution().attention_backend(), v1::ATTENTION_BACKEND_FLASH);
  EXPECT_EQ(answer.response.execution().precision(), v1::PRECISION_FP32);
  EXPECT_EQ(answer.response.request_id(), "mine");
  int tokens = 0;
  for (const auto& embedding : answer.response.embeddings()) tokens += embedding.tokens();
  EXPECT_EQ(answer.response.usage().prompt_tokens(), tokens);
  EXPECT_GT(answer.response.timings().total_ms(), 0.0);
  const RequestRecord record = edge.observer().WaitFor(1).front();
  EXPECT_EQ(record.num_inputs, 3);
  EXPECT_EQ(record.prompt_tokens, tokens);
  EXPECT_EQ(record.finish_reason, "stop");
  EXPECT_EQ(record.model, "encoder");
  EXPECT_GE(record.first_scheduled, record.arrival);
}

TEST(Embed, AVectorIsTheSameAloneInACallAndFromTokenIds) {
  EdgeServer edge;
  const std::vector<float> alone = Embed(edge, Texts({"A dunlin flies in a tight flock."})).vector(0);
  EXPECT_EQ(Embed(edge, Texts({"x", "A dunlin flies in a tight flock.", "Two  spaces"})).vector(1), alone);

  v1::TokenizeRequest tokenize;
  tokenize.set_model("encoder");
  tokenize.set_text("A dunlin flies in a tight flock.");
  tokenize.set_add_special_tokens(true);
  v1::TokenizeResponse tokens;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::TokenizerService::NewStub(edge.channel())->Tokenize(&context, tokenize, &tokens).ok());
  v1::EmbedRequest by_ids;
  by_ids.set_model("encoder");
  *by_ids.add_inputs()->mutable_token_ids()->mutable_ids() = tokens.token_ids();
  EXPECT_EQ(Embed(edge, by_ids).vector(0), alone);
}

TEST(Embed, TakesPoolingNormalizeDimensionsAndExecution) {
  EdgeServer edge;
  v1::EmbedRequest request = Texts({"A dunlin flies."});
  request.set_pooling(v1::POOLING_MEAN);
  request.set_normalize(false);
  const std::vector<float> whole = Embed(edge, request).vector(0);
  EXPECT_GT(std::abs(LengthOf(whole) - 1.0), 1e-3);
  request.set_dimensions(7);
  EXPECT_EQ(Embed(edge, request).vector(0), std::vector<float>(whole.begin(), whole.begin() + 7));
  request.set_normalize(true);
  request.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_MATH);
  request.mutable_execution()->set_precision(v1::PRECISION_BF16);
  const Answer answer = Embed(edge, request);
  EXPECT_NEAR(LengthOf(answer.vector(0)), 1.0, 1e-6);
  EXPECT_EQ(answer.response.execution().attention_backend(), v1::ATTENTION_BACKEND_MATH);
  EXPECT_EQ(answer.response.execution().precision(), v1::PRECISION_BF16);
  EXPECT_EQ(answer.response.pooling(), v1::POOLING_MEAN);
}

TEST(Embed, TruncatesOnlyWhenAsked) {
  EdgeServer edge;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "a ";
  v1::EmbedRequest request = Texts({"short", text});
  const Answer refused = Embed(edge, request);
  EXPECT_EQ(refused.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(),
              testing::AllOf(testing::StartsWith("inputs[1] has "),
                             testing::EndsWith(" tokens; limit is 1 to 130 (models[].max_context_tokens)")));
  request.set_truncate(true);
  const Answer answer = Embed(edge, request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_FALSE(answer.response.embeddings(0).truncated());
  EXPECT_TRUE(answer.response.embeddings(1).truncated());
  EXPECT_EQ(answer.response.embeddings(1).tokens(), 130);
  EXPECT_EQ(answer.vector(1), Embed(edge, Texts({text.substr(0, 256)})).vector(0));  // [CLS], 128 letters, [SEP]
}

struct BadRequest {
  const char* field;
  std::function<void(v1::EmbedRequest*)> bend;
  const char* message;
};

TEST(Embed, NamesTheFieldTheValueAndTheLimit) {
  EdgeServerOptions options;
  options.limits.max_embedding_inputs = 4;
  options.limits.max_message_bytes = 1 << 20;
  options.engine.max_queued_tokens = 300;
  EdgeServer edge(options);
  const BadRequest cases[] = {
      {"model", [](v1::EmbedRequest* r) { r->clear_model(); }, "model is empty"},
      {"inputs", [](v1::EmbedRequest* r) { r->clear_inputs(); },
       "inputs has 0 entries; limit is 1 to 4 (limits.max_embedding_inputs)"},
      {"inputs",
       [](v1::EmbedRequest* r) {
         for (int i = 0; i < 4; ++i) r->add_inputs()->set_text("x");
       },
       "inputs has 5 entries; limit is 1 to 4"},
      {"inputs[1]", [](v1::EmbedRequest* r) { r->add_inputs(); },
       "inputs[1] is empty; limit is one of text, token_ids"},
      {"inputs[1].token_ids.ids", [](v1::EmbedRequest* r) { r->add_inputs()->mutable_token_ids(); },
       "inputs[1].token_ids.ids has 0 tokens"},
      {"inputs[1].token_ids.ids[1]",
       [](v1::EmbedRequest* r) {
         auto* ids = r->add_inputs()->mutable_token_ids();
         ids->add_ids(5);
         ids->add_ids(300);
       },
       "inputs[1].token_ids.ids[1] is 300; limit is [0, 300)"},
      {"inputs",
       [](v1::EmbedRequest* r) {
         for (int i = 0; i < 3; ++i) r->add_inputs()->mutable_token_ids()->mutable_ids()->Resize(120, 3);
       },
       "limit is 300 (scheduler.max_queued_tokens)"},
      {"dimensions", [](v1::EmbedRequest* r) { r->set_dimensions(37); }, "dimensions is 37; limit is [1, 36]"},
      {"dimensions", [](v1::EmbedRequest* r) { r->set_dimensions(0); }, "dimensions is 0; limit is [1, 36]"},
      {"pooling", [](v1::EmbedRequest* r) { r->set_pooling(static_cast<v1::Pooling>(9)); },
       "pooling is 9; limit is [0, 3]"},
      {"execution.precision",
       [](v1::EmbedRequest* r) { r->mutable_execution()->set_precision(static_cast<v1::Precision>(99)); },
       "execution.precision is 99"},
      {"request_id", [](v1::EmbedRequest* r) { r->set_request_id("\x01"); }, "request_id has bytes"},
  };
  for (const BadRequest& bad : cases) {
    v1::EmbedRequest request = Texts({"fine"});
    bad.bend(&request);
    const Answer answer = Embed(edge, request);
    EXPECT_EQ(answer.status.error_code(), StatusCode::INVALID_ARGUMENT) << bad.message;
    EXPECT_THAT(answer.status.error_message(), HasSubstr(bad.message));
    ASSERT_EQ(answer.Get<google::rpc::BadRequest>().field_violations_size(), 1) << bad.message;
    EXPECT_EQ(answer.Get<google::rpc::BadRequest>().field_violations(0).field(), bad.field);
  }
}

TEST(Embed, AnAnswerLargerThanAMessageIsRefused) {
  EdgeServerOptions options;
  options.limits.max_message_bytes = 1024;
  EdgeServer edge(options);
  const Answer answer = Embed(edge, Texts({"a", "b", "c", "d", "e", "f", "g"}));
  EXPECT_EQ(answer.status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(),
              HasSubstr("vectors take 1232 bytes; limit is 1024 (limits.max_message_bytes)"));
}

TEST(Embed, RefusesModelsOfTheOtherKind) {
  EdgeServer edge;
  v1::EmbedRequest embed = Texts({"x"});
  embed.set_model("tiny");
  const Answer decoder = Embed(edge, embed);
  EXPECT_EQ(decoder.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(decoder.reason(), "WRONG_MODEL_KIND");
  EXPECT_THAT(decoder.status.error_message(), HasSubstr("model is a decoder (gpt2)"));

  v1::GenerateRequest generate = TextRequest("x", 3);
  generate.set_model("encoder");
  const Reply encoder = edge.Generate(generate);
  EXPECT_EQ(encoder.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(encoder.reason(), "WRONG_MODEL_KIND");
  EXPECT_THAT(encoder.status.error_message(), HasSubstr("model is an encoder (bert)"));

  embed.set_model("nobody");
  const Answer missing = Embed(edge, embed);
  EXPECT_EQ(missing.status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(missing.reason(), "UNKNOWN_MODEL");
}

TEST(Embed, RefusesAnUnsupportedProfileWithReasons) {
  EdgeServer edge;
  v1::EmbedRequest request = Texts({"x"});
  request.mutable_execution()->set_precision(v1::PRECISION_FP8);
  const Answer answer = Embed(edge, request);
  EXPECT_EQ(answer.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(answer.reason(), "PROFILE_UNSUPPORTED");
  EXPECT_EQ(answer.Get<google::rpc::PreconditionFailure>().violations_size(), 3);
}

// What the record says of a call whose client gave up while its step was held. A server learns of that some time after
// the client, and a step released before then still succeeds: the step is held longer until it does not.
absl::StatusCode RecordedAfter(const std::function<void(const EdgeServer&)>& give_up) {
  absl::StatusCode recorded = absl::StatusCode::kOk;
  for (auto hold = 20ms; recorded == absl::StatusCode::kOk && hold < 10s; hold *= 4) {
    EdgeServer edge;
    edge.control().held = true;
    give_up(edge);
    std::this_thread::sleep_for(hold);
    edge.control().held = false;
    EXPECT_TRUE(EncoderIdle(edge));
    const std::vector<RequestRecord> records = edge.observer().WaitFor(1);
    EXPECT_EQ(records.size(), 1U);
    if (!records.empty()) recorded = records[0].status.code();
  }
  return recorded;
}

TEST(Embed, ADeadlineEndsAHeldCall) {
  const absl::StatusCode recorded = RecordedAfter([](const EdgeServer& edge) {
    EXPECT_EQ(Embed(edge, Texts({"x"}), 100ms).status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  });
  EXPECT_EQ(recorded, absl::StatusCode::kDeadlineExceeded);
}

TEST(Embed, ACancelledCallLeavesTheQueue) {
  const absl::StatusCode recorded = RecordedAfter([](const EdgeServer& edge) {
    grpc::ClientContext context;
    Answer answer;
    std::thread client([&] { answer = Embed(edge, Texts({"x"}), &context); });
    EXPECT_TRUE(Eventually([&] { return !edge.model("encoder").encoder->stats().idle; }));
    context.TryCancel();
    client.join();
    EXPECT_EQ(answer.status.error_code(), StatusCode::CANCELLED);
  });
  EXPECT_EQ(recorded, absl::StatusCode::kCancelled);
}

TEST(Embed, AFullQueueRefusesWithARetryDelay) {
  EdgeServerOptions options;
  options.engine.max_queued_requests = 1;
  options.limits.retry_after_ms = 1500;
  EdgeServer edge(options);
  edge.control().held = true;
  std::thread first([&] { EXPECT_TRUE(Embed(edge, Texts({"x"})).status.ok()); });
  EXPECT_TRUE(Eventually([&] { return !edge.model("encoder").encoder->stats().idle; }));
  grpc::ClientContext context;
  const Answer answer = Embed(edge, Texts({"y"}), &context);
  EXPECT_EQ(answer.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(answer.reason(), "QUEUE_FULL");
  EXPECT_EQ(answer.Get<google::rpc::RetryInfo>().retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1U);
  EXPECT_EQ(edge.observer().WaitFor(1).front().refusal_reason, "QUEUE_FULL");  // the other is held
  edge.control().held = false;
  first.join();
}

TEST(Embed, ABrokenDeviceAndADrainAreUnavailable) {
  EdgeServer edge;
  edge.control().fail = true;
  const Answer broken = Embed(edge, Texts({"x"}));
  EXPECT_EQ(broken.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(broken.reason(), "DEVICE_FAILED");
  EXPECT_TRUE(edge.model("encoder").encoder->stats().failed);
  EXPECT_EQ(Embed(edge, Texts({"x"})).reason(), "DEVICE_FAILED");

  EdgeServer draining;
  draining.server().StartDraining();
  const Answer refused = Embed(draining, Texts({"x"}));
  EXPECT_EQ(refused.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.reason(), "DRAINING");
}

TEST(Embed, AShutdownEndsQueuedCalls) {
  auto edge = std::make_unique<EdgeServer>();
  edge->control().held = true;
  Answer answer;
  std::thread client(
      [&] { answer = Embed(*edge, Texts(std::vector<std::string>(200, "a longer text than one batch"))); });
  EXPECT_TRUE(Eventually([&] { return !edge->model("encoder").encoder->stats().idle; }));
  std::thread opener([&] {
    std::this_thread::sleep_for(200ms);
    edge->control().held = false;
  });
  edge->server().Shutdown(absl::Now() + absl::Milliseconds(50));
  opener.join();
  client.join();
  EXPECT_EQ(answer.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(answer.reason(), "SHUTDOWN");
}

TEST(Embed, ManyClientsGetTheirOwnVectors) {
  EdgeServer edge;
  std::vector<std::vector<float>> alone;
  for (int i = 0; i < 8; ++i) alone.push_back(Embed(edge, Texts({"client " + std::to_string(i)})).vector(0));
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        const Answer answer = Embed(edge, Texts({"other", "client " + std::to_string(i), "a third one"}));
        ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
        EXPECT_EQ(answer.vector(1), alone[static_cast<size_t>(i)]);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(EncoderIdle(edge));
}

TEST(Embed, ModelServiceReportsTheKindAndTheDefaults) {
  EdgeServer edge;
  v1::GetModelRequest request;
  request.set_name("encoder");
  v1::GetModelResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::ModelService::NewStub(edge.channel())->GetModel(&context, request, &response).ok());
  EXPECT_EQ(response.model().kind(), v1::MODEL_KIND_ENCODER);
  EXPECT_EQ(response.model().architecture(), "bert");
  EXPECT_EQ(response.model().max_context_tokens(), 130);
  EXPECT_EQ(response.model().embedding().dimensions(), 36);
  EXPECT_EQ(response.model().embedding().pooling(), v1::POOLING_CLS);
  EXPECT_TRUE(response.model().embedding().normalize());
  EXPECT_EQ(response.profiles_size(), 3 * kernels::kNumPrecisions);
}

}  // namespace
}  // namespace dunlin::server
