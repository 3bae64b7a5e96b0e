// SPDX-License-Identifier: Apache-2.0
// Whole responses and streams of every generating route against files, which check_goldens.py validates by the clients'
// own models. DUNLIN_WRITE_GOLDENS=1 writes the files anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/embeddings.h"
#include "server/fronts/openai/field_names.h"
#include "server/fronts/openai/models.h"
#include "server/fronts/openai/rerank.h"
#include "server/fronts/openai/responses.h"
#include "server/fronts/openai/tokenize.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"
#include "server/serving/text/prompt_overflow.h"
#include "tests/server/fronts/openai/scripted_output.h"

namespace dunlin::server {
namespace {

using engine::FinishReason;

void ExpectGolden(const std::string& name, const std::string& actual) {
  const std::string path = std::string(DUNLIN_SOURCE_DIR "/tests/server/fronts/openai/golden/") + name;
  if (std::getenv("DUNLIN_WRITE_GOLDENS") != nullptr) std::ofstream(path) << actual << "\n";
  std::ifstream stream(path);
  std::stringstream expected;
  expected << stream.rdbuf();
  EXPECT_EQ(actual + "\n", expected.str()) << path;
}

ChunkScript Words() {
  ChunkScript script;
  script.Chunk().Chunk().Tokens(1).Text("Hel").Chunk().Tokens(1).Chunk().Tokens(2).Text("lo \"w\"\n\xE2\x82\xAC");
  return script.Chunk().Tokens(1).Finish();
}

ChunkScript ThoughtsAndCalls() {
  ChunkScript script;
  script.Chunk().Chunk().Tokens(2).Reasoning("Need a ").Chunk().Tokens(1).Reasoning("tool.");
  script.Chunk().Tokens(1).Text("Looking.");
  script.Chunk().Tokens(3).Call(0, "call_a", "weather", "{\"city\":").Chunk().Tokens(1).Call(0, "", "", "\"Oslo\"}");
  script.Chunk().Tokens(2).Call(1, "call_b", "time", "{}");
  return script.Chunk().Tokens(1).Finish().WithToolCalls();
}

ChunkScript TwoOutputs() {
  ChunkScript script;
  script.Chunk(0).Tokens(1).Text("a").Chunk(1).Tokens(1).Text("x").Chunk(0).Tokens(1).Text("b").Finish();
  return script.Chunk(1).Tokens(2).Text("yz").Finish(FinishReason::kLength);
}

ChunkScript Scored() {
  ChunkScript script;
  script.Chunk().Chunk().Scored(300, 400).Text("t").Chunk().Scored(127, 500).Scored(40, 41).Text("!");
  return script.Chunk().Finish();
}

ChunkScript Stopped() {
  ChunkScript script;
  script.Chunk().Tokens(3).Text("before ");
  return script.Chunk().Finish().StopString("END");
}

ChunkScript Constrained() {
  ChunkScript script;
  return script.Chunk().Tokens(2).Text("{\"a\":").Finish(FinishReason::kConstraint);
}

ChunkScript Cut() {
  ChunkScript script;
  return script.Chunk().Chunk().Tokens(1).Text("Hel");
}

const char kTools[] = R"("tools":[{"type":"function","function":{"name":"weather"}}])";

std::string Chat(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + more + "}";
}
std::string Completion(const std::string& more) {
  return R"({"model":"m","prompt":"Oslo is")" + more + "}";
}
std::string Response(const std::string& more) {
  return R"({"model":"m","input":"hi")" + more + "}";
}
std::string Message(const std::string& more) {
  return R"({"model":"m","max_tokens":64,"messages":[{"role":"user","content":"hi"}])" + more + "}";
}
const char kStream[] = R"(,"stream":true)";
const char kStreamUsage[] = R"(,"stream":true,"stream_options":{"include_usage":true})";

TEST(Golden, ChatCompletions) {
  using T = ChatCompletionsTranslator;
  ExpectGolden("chat.json", Respond<T>(Chat(""), Words()));
  ExpectGolden("chat.sse", Respond<T>(Chat(kStreamUsage), Words()));
  ExpectGolden("chat_tools.json", Respond<T>(Chat(std::string(",") + kTools), ThoughtsAndCalls()));
  ExpectGolden("chat_tools.sse", Respond<T>(Chat(std::string(",") + kTools + kStreamUsage), ThoughtsAndCalls()));
  ExpectGolden("chat_n.json", Respond<T>(Chat(R"(,"n":2)"), TwoOutputs()));
  ExpectGolden("chat_n.sse", Respond<T>(Chat(std::string(R"(,"n":2)") + kStream), TwoOutputs()));
  ExpectGolden("chat_logprobs.json", Respond<T>(Chat(R"(,"logprobs":true,"top_logprobs":2)"), Scored()));
  ExpectGolden("chat_logprobs.sse",
               Respond<T>(Chat(std::string(R"(,"logprobs":true,"top_logprobs":2)") + kStream), Scored()));
  ExpectGolden("chat_constraint.json", Respond<T>(Chat(R"(,"response_format":{"type":"json_object"})"), Constrained()));
  ExpectGolden("chat_constraint_bound.json",
               Respond<T>(Chat(R"(,"structured_outputs":{"grammar":"start: \"a\""})"),
                          Constrained().ConstraintError("the grammar is too ambiguous to continue")));
  ExpectGolden("chat_error.sse",
               Respond<T>(Chat(kStream), Cut(), MakeError(Reason::kDeviceFailed, "the device failed")));
}

TEST(Golden, Completions) {
  using T = CompletionsTranslator;
  ExpectGolden("completion.json", Respond<T>(Completion(""), Stopped()));
  ExpectGolden("completion.sse", Respond<T>(Completion(kStreamUsage), Words()));
  ExpectGolden("completion_logprobs.json",
               Respond<T>(Completion(R"(,"logprobs":2,"return_token_ids":true)"), Scored()));
  ExpectGolden("completion_logprobs.sse",
               Respond<T>(Completion(std::string(R"(,"logprobs":2,"return_token_ids":true)") + kStream), Scored()));
}

TEST(Golden, Responses) {
  using T = ResponsesTranslator;
  const std::string tools = R"(,"tools":[{"type":"function","name":"weather","parameters":{"type":"object"},)"
                            R"("strict":true}],"instructions":"Be brief.","metadata":{"k":"v"})";
  ExpectGolden("response.json", Respond<T>(Response(""), Words()));
  ExpectGolden("response.sse", Respond<T>(Response(kStream), Words()));
  ExpectGolden("response_tools.json", Respond<T>(Response(tools), ThoughtsAndCalls()));
  ExpectGolden("response_tools.sse", Respond<T>(Response(tools + kStream), ThoughtsAndCalls()));
  const std::string logprobs = R"(,"include":["message.output_text.logprobs"],"top_logprobs":2)";
  ExpectGolden("response_logprobs.json", Respond<T>(Response(logprobs), Scored()));
  ExpectGolden("response_incomplete.json", Respond<T>(Response(""), Constrained()));
  ExpectGolden("response_error.sse",
               Respond<T>(Response(kStream), Cut(), MakeError(Reason::kDeviceFailed, "the device failed")));
}

TEST(Golden, AnthropicMessages) {
  using T = AnthropicTranslator;
  const std::string tools = R"(,"tools":[{"name":"weather","input_schema":{"type":"object"}}])";
  ExpectGolden("message.json", Respond<T>(Message(""), Stopped()));
  ExpectGolden("message.sse", Respond<T>(Message(kStream), Words()));
  ExpectGolden("message_tools.json", Respond<T>(Message(tools), ThoughtsAndCalls()));
  ExpectGolden("message_tools.sse", Respond<T>(Message(tools + kStream), ThoughtsAndCalls()));
  ExpectGolden("message_constraint_bound.sse",
               Respond<T>(Message(kStream), Constrained().ConstraintError("the grammar is too ambiguous to continue")));
  ExpectGolden("message_error.sse",
               Respond<T>(Message(kStream), Cut(), MakeError(Reason::kDeviceFailed, "the device failed")));
  ExpectGolden("count_tokens.json", CountTokensBody(17));
}

TEST(Golden, Embeddings) {
  engine::EncodeCall call;
  call.request.lengths = {2, 3};
  call.request.dimensions = 2;
  call.vectors = {0.5F, -0.25F, 1.0F, 1.0e-5F};
  const std::vector<bool> truncated = {false, true};
  const EmbedResult result{.call = call,
                           .truncated = truncated,
                           .usage = {.prompt_tokens = 5, .cached_tokens = 0, .completion_tokens = 0},
                           .timings = {.queue_ms = 0.5, .ttft_ms = 0, .total_ms = 2.0}};
  for (const char* format : {"float", "base64"}) {
    EmbeddingsTranslator translator(TestFacts());
    ClientEmbedRequest request;
    const std::string body = std::string(R"({"model":"m","input":["a","b"],"encoding_format":")") + format + "\"}";
    ASSERT_TRUE(translator.Read(body, &request).ok());
    ExpectGolden(std::string("embeddings_") + format + ".json", translator.Document(result));
  }
}

TEST(Golden, Rerank) {
  engine::EncodeCall call;
  call.request.lengths = {4, 5, 6};
  call.request.dimensions = 1;
  call.vectors = {-1.0F, 2.0F, 0.0F};
  const std::vector<bool> truncated = {false, true, false};
  const RerankScores scores{.sigmoid = true, .top_n = 2};
  const EmbedResult result{.call = call,
                           .truncated = truncated,
                           .rerank = &scores,
                           .usage = {.prompt_tokens = 15, .cached_tokens = 0, .completion_tokens = 0},
                           .timings = {.queue_ms = 0.5, .ttft_ms = 0, .total_ms = 2.0},
                           .request_id = "r1"};
  for (const bool documents : {false, true}) {
    RerankTranslator translator(TestFacts());
    ClientEmbedRequest request;
    const std::string body = std::string(R"({"model":"m","query":"q","documents":["a",{"text":"b"},"c"],)") +
                             R"("top_n":2,"return_documents":)" + (documents ? "true}" : "false}");
    ASSERT_TRUE(translator.Read(body, &request).ok());
    EXPECT_EQ(request.inputs.size(), 3U);
    EXPECT_EQ(request.rerank->top_n, 2);
    ExpectGolden(documents ? "rerank_documents.json" : "rerank.json", translator.Document(result));
  }
  RerankTranslator cohere(TestFacts(), RerankApi::kCohereV2);
  ClientEmbedRequest request;
  ASSERT_TRUE(cohere.Read(R"({"model":"m","query":"q","documents":["a","b","c"],"top_n":2})", &request).ok());
  EXPECT_TRUE(request.truncate);
  EXPECT_EQ(request.rerank->max_tokens_per_doc, 4096);
  ExpectGolden("rerank_cohere.json", cohere.Document(result));
  ExpectGolden("rerank_cohere_error.json", cohere.ErrorBody(UnknownModel("m")));
}

TEST(Golden, ModelsAndTokens) {
  const ModelFacts models[] = {{"a", 1700000000, 2048}, {"b\"", 1700000001, 512}};
  ExpectGolden("models.json", ModelListBody(models));
  ExpectGolden("model.json", ModelBody(models[0]));
  ExpectGolden("models_anthropic.json", ModelListBody(models, ModelsApi::kAnthropic));
  ExpectGolden("model_anthropic.json", ModelBody(models[0], ModelsApi::kAnthropic));
  const engine::TokenId ids[] = {1, 2, 3};
  ExpectGolden("tokenize.json", TokenizeResponseBody(ids, 2048));
  ExpectGolden("detokenize.json", DetokenizeResponseBody("a\tb"));
}

TEST(Golden, Errors) {
  ChatCompletionsTranslator openai(TestFacts());
  AnthropicTranslator anthropic(TestFacts());
  const absl::Status field = InvalidField("top_p", "is 1.5", "(0, 1]");
  const absl::Status full = Overloaded(Reason::kQueueFull, "the queue is full", "scheduler.max_queued_requests", 250);
  ExpectGolden("error_field.json", openai.ErrorBody(field));
  ExpectGolden("error_full.json", openai.ErrorBody(full));
  ExpectGolden("error_profile.json", openai.ErrorBody(ProfileRefused("no", {"flash: a", "math: b"})));
  ExpectGolden("anthropic_error_field.json", anthropic.ErrorBody(field));
  ExpectGolden("anthropic_error_full.json", anthropic.ErrorBody(full));
  ClientRequest request;
  ExpectGolden("anthropic_error_thread.json",
               anthropic.ErrorBody(anthropic.Read(Message(R"(,"thread":{"type":"create"})"), &request)));
  const absl::Status overflow =
      PromptOverflowed(engine::Violation::Of(ClientField::kChat, "has 9000 tokens", "8191"), kChatFieldNames,
                       {.context_tokens = 8192, .max_prompt_tokens = 8191, .prompt_tokens = 9000, .at_least = false});
  ExpectGolden("error_overflow.json", openai.ErrorBody(overflow));
  ExpectGolden("anthropic_error_overflow.json", anthropic.ErrorBody(overflow));
}

}  // namespace
}  // namespace dunlin::server
