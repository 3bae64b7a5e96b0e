// SPDX-License-Identifier: Apache-2.0
// The routes that generate nothing, and refusals, over HTTP and over gRPC: the same vectors, token ids, reasons, fields
// and limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "dunlin/v1/embedding.grpc.pb.h"
#include "dunlin/v1/model.grpc.pb.h"
#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "tests/integration/serving/served_edge.h"

namespace dunlin::server {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST(Models, AreThoseOfGrpc) {
  const ServedEdge& edge = ServedEdge::Get();
  grpc::ClientContext context;
  v1::ListModelsResponse wire;
  ASSERT_TRUE(v1::ModelService::NewStub(edge.channel())->ListModels(&context, v1::ListModelsRequest(), &wire).ok());
  const Json list = edge.Fetch("/v1/models").json();
  ASSERT_EQ(list["data"].size(), static_cast<size_t>(wire.models_size()));
  for (int i = 0; i < wire.models_size(); ++i) {
    EXPECT_EQ(list["data"][i]["id"], wire.models(i).name());
    EXPECT_EQ(list["data"][i]["max_model_len"], wire.models(i).max_context_tokens());
    EXPECT_EQ(edge.Fetch("/v1/models/" + wire.models(i).name()).json(), list["data"][i]);
  }
  const HttpAnswer unknown = edge.Fetch("/v1/models/no%20model");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json()["error"]["code"], "UNKNOWN_MODEL");
  EXPECT_EQ(unknown.json()["error"]["model"], "no model");
}

// The error object is what OpenAI's clients print: of a base URL without /v1, too.
TEST(Paths, ThatAreNotServedAreRefusedAsTheirApiDoes) {
  const ServedEdge& edge = ServedEdge::Get();
  const std::pair<const char*, const char*> cases[] = {
      {"/chat/completions", "; /v1/chat/completions is"},
      {"/v1/chat/completions/", "; /v1/chat/completions is"},
      {"/v1/v1/messages", "; /v1/messages is"},
      {"/v1/moderations", "not found: nothing is served at /v1/moderations"},
  };
  for (const auto& [path, end] : cases) {
    const HttpAnswer answer = edge.Post(path, "{}");
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_THAT(answer.json()["error"]["message"].get<std::string>(), testing::EndsWith(end)) << path;
  }
}

TEST(Tokens, AreThoseOfGrpc) {
  const ServedEdge& edge = ServedEdge::Get();
  const auto stub = v1::TokenizerService::NewStub(edge.channel());
  grpc::ClientContext text_context;
  v1::TokenizeRequest request;
  request.set_model("demo");
  request.set_text("The dunlin \xC3\xA9");
  v1::TokenizeResponse wire;
  ASSERT_TRUE(stub->Tokenize(&text_context, request, &wire).ok());
  const Json tokens = edge.Post("/tokenize", "{\"model\":\"demo\",\"prompt\":\"The dunlin \xC3\xA9\"}").json();
  EXPECT_THAT(tokens["tokens"].get<std::vector<int>>(), ElementsAreArray(wire.token_ids()));
  EXPECT_EQ(tokens["count"], wire.token_ids_size());
  const Json back =
      edge.Post("/detokenize", absl::StrCat(R"({"model":"demo","tokens":)", tokens["tokens"].dump(), "}")).json();
  EXPECT_EQ(back["prompt"], request.text());

  grpc::ClientContext chat_context;
  v1::ApplyChatTemplateRequest chat;
  chat.set_model("demo");
  v1::ChatMessage* message = chat.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("Hello");
  v1::ApplyChatTemplateResponse rendered;
  ASSERT_TRUE(stub->ApplyChatTemplate(&chat_context, chat, &rendered).ok());
  const std::string messages = R"({"model":"demo","messages":[{"role":"user","content":"Hello"}]})";
  EXPECT_THAT(edge.Post("/tokenize", messages).json()["tokens"].get<std::vector<int>>(),
              ElementsAreArray(rendered.token_ids()));
  EXPECT_EQ(edge.Post("/v1/messages/count_tokens", messages).json()["input_tokens"], rendered.token_ids_size());
}

TEST(Embeddings, AreThoseOfGrpc) {
  const ServedEdge& edge = ServedEdge::Get();
  for (const int dimensions : {0, 8}) {
    v1::EmbedRequest request;
    request.set_model("encoder");
    request.add_inputs()->set_text("A dunlin flies.");
    request.add_inputs()->set_text("Worms");
    std::string fields = R"({"model":"encoder","input":["A dunlin flies.","Worms"])";
    if (dimensions > 0) {
      request.set_dimensions(dimensions);
      absl::StrAppend(&fields, ",\"dimensions\":", dimensions);
    }
    grpc::ClientContext context;
    v1::EmbedResponse wire;
    ASSERT_TRUE(v1::EmbeddingService::NewStub(edge.channel())->Embed(&context, request, &wire).ok());
    const Json floats = edge.Post("/v1/embeddings", fields + "}").json();
    const Json base64 = edge.Post("/v1/embeddings", fields + R"(,"encoding_format":"base64"})").json();
    ASSERT_EQ(floats["data"].size(), 2U);
    EXPECT_EQ(floats["usage"]["prompt_tokens"], wire.usage().prompt_tokens());
    for (int i = 0; i < 2; ++i) {
      const auto& expected = wire.embeddings(i).values();
      EXPECT_THAT(floats["data"][i]["embedding"].get<std::vector<float>>(), ElementsAreArray(expected)) << i;
      std::string bytes;
      ASSERT_TRUE(absl::Base64Unescape(base64["data"][i]["embedding"].get<std::string>(), &bytes));
      std::vector<float> decoded(bytes.size() / sizeof(float));
      std::memcpy(decoded.data(), bytes.data(), bytes.size());
      EXPECT_THAT(decoded, ElementsAreArray(expected)) << i;
    }
  }
}

TEST(Responses, SayWhatRan) {
  const ServedEdge& edge = ServedEdge::Get();
  const Json json =
      edge.Post("/v1/completions", R"({"model":"tiny","prompt":[1,2],"max_tokens":2,"attention_backend":"math"})")
          .json();
  EXPECT_EQ(json["system_fingerprint"], "dunlin-1.2.3-some-cpu-math-fp32");
  EXPECT_EQ(json["dunlin"]["execution"]["attention_backend"], "math");
  const Json other =
      edge.Post("/v1/completions", R"({"model":"tiny","prompt":[1,2],"max_tokens":2,"precision":"fp32"})").json();
  EXPECT_EQ(other["dunlin"]["execution"]["precision"], "fp32");
}

TEST(Templates, SeeTheEffortOfReasoning) {
  const ServedEdge& edge = ServedEdge::Get();
  const std::string chat =
      R"("model":"demo","max_tokens":4,"temperature":0,"messages":[{"role":"user","content":"Hi"}])";
  EXPECT_EQ(edge.Post("/v1/chat/completions", absl::StrCat("{", chat, R"(,"reasoning_effort":"low"})")).status, 200);
  const HttpAnswer twice = edge.Post(
      "/v1/chat/completions",
      absl::StrCat("{", chat, R"(,"reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"}})"));
  EXPECT_EQ(twice.status, 400);
}

// The same value out of bounds, as fields of a completion and of GenerateRequest.
struct Refusal {
  const char* name;
  const char* http;
  const char* wire;
  const char* param;  // the field as HTTP names it
};
std::ostream& operator<<(std::ostream& out, const Refusal& row) {
  return out << row.name;
}

const Refusal kRefusals[] = {
    {"TopP", R"("prompt":"a","top_p":1.5)", R"("text":"a","sampling":{"topP":1.5})", "top_p"},
    {"Temperature", R"("prompt":"a","temperature":-1)", R"("text":"a","sampling":{"temperature":-1})", "temperature"},
    {"NumOutputs", R"("prompt":"a","n":0)", R"("text":"a","sampling":{"n":0})", "n"},
    {"MaxTokens", R"("prompt":"a","max_tokens":-1)", R"("text":"a","stopping":{"maxTokens":-1,"clampMaxTokens":true})",
     "max_tokens"},
    {"Stop", R"("prompt":"a","stop":["a",""])", R"("text":"a","stopping":{"stop":["a",""]})", "stop[1]"},
    {"Logprobs", R"("prompt":"a","logprobs":1000)", R"("text":"a","output":{"logprobs":1000})", "logprobs"},
    {"TokenId", R"("prompt":[1,999999])", R"("tokenIds":{"ids":[1,999999]})", "prompt[1]"},
    {"Priority", R"("prompt":"a","priority":100000)", R"("text":"a","priority":100000)", "priority"},
    {"Regex", R"("prompt":"a","guided_regex":"(")", R"("text":"a","structuredOutput":{"regex":"("})",
     "structured_outputs.regex"},
    {"Profile", R"("prompt":"a","precision":"fp8")", R"("text":"a","execution":{"precision":"PRECISION_FP8"})", ""},
    {"Model", R"("prompt":"a","model":"other")", R"("text":"a","model":"other")", ""},
    {"Kind", R"("prompt":"a","model":"encoder")", R"("text":"a","model":"encoder")", ""},
    {"NoTokenizer", R"("prompt":"a","model":"tiny")", R"("text":"a","model":"tiny")", ""},
};

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, AreThoseOfGrpc) {
  const Refusal& row = GetParam();
  const std::string model = std::string(row.wire).find("\"model\"") == std::string::npos ? R"("model":"demo",)" : "";
  const ServedEdge& edge = ServedEdge::Get();
  const Reply reply = edge.Generate(absl::StrCat("{", model, row.wire, "}"));
  const HttpAnswer answer = edge.Post("/v1/completions", absl::StrCat("{", model, row.http, "}"));
  const Json error = answer.json()["error"];
  ASSERT_FALSE(reply.status.ok());
  EXPECT_EQ(answer.status, reply.status.error_code() == grpc::StatusCode::NOT_FOUND ? 404 : 400) << answer.body;
  EXPECT_EQ(error["code"], reply.reason());
  if (*row.param == '\0') {
    EXPECT_THAT(error["message"].get<std::string>(), testing::StartsWith(reply.status.error_message()));
    EXPECT_TRUE(error["param"].is_null());
    return;
  }
  EXPECT_EQ(error["param"], row.param);
  // The message of gRPC with the field's other name.
  const auto details = reply.Get<google::rpc::BadRequest>();
  ASSERT_EQ(details.field_violations_size(), 1);
  const std::string& field = details.field_violations(0).field();
  const std::string message = reply.status.error_message();
  EXPECT_EQ(error["message"], absl::StrCat(row.param, message.substr(field.size())));
  EXPECT_THAT(message, HasSubstr(error.value("limit", "")));
}

INSTANTIATE_TEST_SUITE_P(OfBothPorts, Refusals, testing::ValuesIn(kRefusals),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace dunlin::server
