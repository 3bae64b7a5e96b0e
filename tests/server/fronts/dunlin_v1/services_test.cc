// SPDX-License-Identifier: Apache-2.0
// ModelService and TokenizerService.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dunlin/v1/model.grpc.pb.h"
#include "dunlin/v1/tokenizer.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;
using testing::ElementsAre;

template <class Stub, class Request, class Response>
grpc::Status Call(const EdgeServer& edge, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  Stub stub(edge.channel());
  return (stub.*method)(&context, request, response);
}

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status wire;
  google::rpc::ErrorInfo info;
  wire.ParseFromString(status.error_details());
  for (const auto& detail : wire.details()) {
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

TEST(ModelService, ListsModelsEvenBeforeServing) {
  EdgeServerOptions options;
  options.serving = false;
  EdgeServer edge(options);
  v1::ListModelsResponse response;
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::ListModels, v1::ListModelsRequest(), &response).ok());
  ASSERT_EQ(response.models_size(), 3);
  const v1::Model& model = response.models(0);
  EXPECT_EQ(model.name(), "tiny");
  EXPECT_EQ(model.architecture(), "gpt2");
  EXPECT_EQ(model.vocab_size(), kTinyVocab);
  EXPECT_EQ(model.max_context_tokens(), kTinyContext);
  EXPECT_GT(model.parameters(), 0);
  EXPECT_THAT(model.precisions(), ElementsAre(v1::PRECISION_FP32, v1::PRECISION_BF16));
  EXPECT_EQ(model.device(), v1::DEVICE_CPU);
  EXPECT_THAT(model.eos_token_ids(), ElementsAre(0));
  EXPECT_EQ(model.kind(), v1::MODEL_KIND_DECODER);
  EXPECT_FALSE(model.has_embedding());
  EXPECT_TRUE(model.has_generation());
  EXPECT_FALSE(response.models(2).has_generation()) << "an encoder";
}

TEST(ModelService, ListsProfilesAsModelsWhenAskedTo) {
  EdgeServerOptions options;
  options.server.serving.profile_aliases = true;
  EdgeServer edge(options);
  v1::ListModelsResponse response;
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::ListModels, v1::ListModelsRequest(), &response).ok());
  std::vector<std::string> names;
  for (const v1::Model& model : response.models()) names.push_back(model.name());
  EXPECT_THAT(names, testing::IsSupersetOf({"tiny", "tiny@flash-fp32", "tiny@math-bf16", "encoder"}));
  EXPECT_THAT(names, testing::Not(testing::Contains("tiny@flash-fp8"))) << "it is not resident";
}

TEST(ModelService, KnowsModelsByTheNamesOfTheirProfiles) {
  EdgeServer edge;
  v1::GetModelRequest request;
  v1::GetModelResponse response;
  request.set_name("tiny@math-bf16");
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::GetModel, request, &response).ok());
  EXPECT_EQ(response.model().name(), "tiny");
  request.set_name("tiny@fast");
  const grpc::Status status = Call(edge, &v1::ModelService::Stub::GetModel, request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), testing::HasSubstr("tiny@flash-fp32"));
}

// The x-request-id that comes back of a GetModel call: "initial ID" or "trailing ID", "" for none.
std::string EchoOf(const EdgeServer& edge, const std::string& model, const std::string& id) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.AddMetadata("x-request-id", id);
  v1::GetModelRequest request;
  request.set_name(model);
  v1::GetModelResponse response;
  v1::ModelService::NewStub(edge.channel())->GetModel(&context, request, &response);
  std::string echo;
  for (const auto& [key, value] : context.GetServerInitialMetadata()) {
    if (key == "x-request-id") echo += "initial " + std::string(value.data(), value.size());
  }
  for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
    if (key == "x-request-id") echo += "trailing " + std::string(value.data(), value.size());
  }
  return echo;
}

TEST(Services, SendTheRequestIdBack) {
  EdgeServer edge;
  EXPECT_EQ(EchoOf(edge, "tiny", "mine"), "initial mine");
  EXPECT_EQ(EchoOf(edge, "unknown", "mine"), "trailing mine");
  EXPECT_EQ(EchoOf(edge, "tiny", std::string(129, 'x')), "") << "too long";
}

TEST(Services, SendTheRequestIdOfTextCallsBack) {
  EdgeServer edge;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  context.AddMetadata("x-request-id", "mine");
  v1::TokenizeRequest request;
  request.set_model("tiny");
  request.set_text("abc");
  v1::TokenizeResponse response;
  ASSERT_TRUE(v1::TokenizerService::NewStub(edge.channel())->Tokenize(&context, request, &response).ok());
  EXPECT_EQ(context.GetServerInitialMetadata().count("x-request-id"), 1U);
}

TEST(ModelService, ReportsTheDefaultsOfTheModelsGenerationConfig) {
  EdgeServer edge;
  v1::GetModelRequest request;
  request.set_name("tiny");
  v1::GetModelResponse response;
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::GetModel, request, &response).ok());
  EXPECT_EQ(response.model().generation().temperature(), 0.0F);
  EXPECT_EQ(response.model().generation().top_p(), 1.0F);
  EXPECT_EQ(response.model().generation().repetition_penalty(), 1.0F);
  EXPECT_FALSE(response.model().generation().has_max_tokens());

  edge.models().AddBanning();
  request.set_name("banning");
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::GetModel, request, &response).ok());
  const v1::GenerationDefaults& defaults = response.model().generation();
  EXPECT_EQ(defaults.max_tokens(), 12);
  EXPECT_THAT(defaults.suppress_tokens(), ElementsAre(3, 4));
  EXPECT_THAT(defaults.begin_suppress_tokens(), ElementsAre(5));
  ASSERT_EQ(defaults.bad_words_ids_size(), 1);
  EXPECT_THAT(defaults.bad_words_ids(0).ids(), ElementsAre(6, 7));
}

TEST(ModelService, DescribesEveryProfileWithReasons) {
  EdgeServer edge;
  v1::GetModelRequest request;
  request.set_name("tiny");
  v1::GetModelResponse response;
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::GetModel, request, &response).ok());
  EXPECT_EQ(response.profiles_size(), 3 * kernels::kNumPrecisions);
  for (const v1::Profile& profile : response.profiles()) EXPECT_EQ(profile.supported(), profile.reasons().empty());

  request.set_name("missing");
  const grpc::Status missing = Call(edge, &v1::ModelService::Stub::GetModel, request, &response);
  EXPECT_EQ(missing.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(missing.error_message(), "model \"missing\" is not served");
}

TEST(ModelService, AModelThatIsNotThereYetIsLoadingNotUnknown) {
  EdgeServerOptions options;
  options.serving = false;
  EdgeServer edge(options);
  v1::GetModelRequest request;
  v1::GetModelResponse response;
  request.set_name("tiny");
  EXPECT_TRUE(Call(edge, &v1::ModelService::Stub::GetModel, request, &response).ok());
  request.set_name("comes later");
  const grpc::Status loading = Call(edge, &v1::ModelService::Stub::GetModel, request, &response);
  EXPECT_EQ(loading.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(loading), "LOADING");
}

TEST(TokenizerService, RoundTripsText) {
  EdgeServer edge;
  v1::TokenizeRequest request;
  request.set_model("tiny");
  request.set_text("Hello, world!");
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(Call(edge, &v1::TokenizerService::Stub::Tokenize, request, &tokens).ok());
  EXPECT_THAT(tokens.token_ids(), ElementsAre(501, 544, 12, 842, 1));  // tests/golden/text/byte_level_gpt2
  v1::DetokenizeRequest back;
  back.set_model("tiny");
  *back.mutable_token_ids() = tokens.token_ids();
  v1::DetokenizeResponse text;
  ASSERT_TRUE(Call(edge, &v1::TokenizerService::Stub::Detokenize, back, &text).ok());
  EXPECT_EQ(text.text(), "Hello, world!");
}

TEST(TokenizerService, ReadsSpecialTokensOnlyWhenAsked) {
  EdgeServer edge;
  v1::TokenizeRequest request;
  request.set_model("tiny");
  request.set_text("<|endoftext|>");
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(Call(edge, &v1::TokenizerService::Stub::Tokenize, request, &tokens).ok());
  EXPECT_GT(tokens.token_ids_size(), 1);
  request.set_parse_special_tokens(true);
  ASSERT_TRUE(Call(edge, &v1::TokenizerService::Stub::Tokenize, request, &tokens).ok());
  EXPECT_THAT(tokens.token_ids(), ElementsAre(0));
}

TEST(ModelService, SaysWhetherAModelTakesChats) {
  EdgeServer edge;
  v1::ListModelsResponse response;
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::ListModels, v1::ListModelsRequest(), &response).ok());
  EXPECT_TRUE(response.models(0).chat().supported());
  EXPECT_EQ(response.models(0).chat().reason(), "");
  EXPECT_FALSE(response.models(1).chat().supported());
  EXPECT_EQ(response.models(1).chat().reason(), "the model has no tokenizer; it takes token_ids only");
  EXPECT_FALSE(response.models(2).has_chat()) << "an encoder";
}

TEST(ModelService, SaysHowAModelWritesReasoningAndToolCalls) {
  EdgeServer edge;
  edge.models().AddChatting("thinks", "{# <tool_call> </think> #}{{ messages[-1].content }}");
  v1::GetModelRequest request;
  v1::GetModelResponse response;
  request.set_name("thinks");
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::GetModel, request, &response).ok());
  EXPECT_EQ(response.model().chat().tool_parser(), "hermes");
  EXPECT_EQ(response.model().chat().reasoning_parser(), "think_tags");
  request.set_name("tiny");
  ASSERT_TRUE(Call(edge, &v1::ModelService::Stub::GetModel, request, &response).ok());
  EXPECT_EQ(response.model().chat().tool_parser(), "none");
  EXPECT_EQ(response.model().chat().reasoning_parser(), "none");
}

TEST(TokenizerService, AppliesTheChatTemplate) {
  EdgeServer edge;
  v1::ApplyChatTemplateRequest request;
  request.set_model("tiny");
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("Hello, world!");
  v1::ApplyChatTemplateResponse prompt;
  ASSERT_TRUE(Call(edge, &v1::TokenizerService::Stub::ApplyChatTemplate, request, &prompt).ok());
  EXPECT_EQ(prompt.text(), "user: Hello, world!<|endoftext|>assistant:");
  v1::TokenizeRequest tokenize;
  tokenize.set_model("tiny");
  tokenize.set_text(prompt.text());
  tokenize.set_parse_special_tokens(true);
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(Call(edge, &v1::TokenizerService::Stub::Tokenize, tokenize, &tokens).ok());
  EXPECT_THAT(prompt.token_ids(), testing::ElementsAreArray(tokens.token_ids()));

  message.set_role("bird");
  grpc::Status status = Call(edge, &v1::TokenizerService::Stub::ApplyChatTemplate, request, &prompt);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "chat is refused by the model's chat template: birds do not chat");
  request.set_model("missing");
  status = Call(edge, &v1::TokenizerService::Stub::ApplyChatTemplate, request, &prompt);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  edge.server().StartDraining();
  EXPECT_EQ(ReasonOf(Call(edge, &v1::TokenizerService::Stub::ApplyChatTemplate, request, &prompt)), "DRAINING");
}

TEST(TokenizerService, RefusesWhatItCannotDo) {
  EdgeServer edge;
  v1::TokenizeRequest request;
  request.set_model("missing");
  v1::TokenizeResponse tokens;
  grpc::Status status = Call(edge, &v1::TokenizerService::Stub::Tokenize, request, &tokens);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  request.set_model("bare");
  status = Call(edge, &v1::TokenizerService::Stub::Tokenize, request, &tokens);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(status), "NO_TOKENIZER");
  v1::DetokenizeRequest back;
  back.set_model("tiny");
  back.add_token_ids(5);
  back.add_token_ids(-7);
  v1::DetokenizeResponse text;
  status = Call(edge, &v1::TokenizerService::Stub::Detokenize, back, &text);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "token_ids[1] is -7; limit is [0, 902)");
  edge.server().StartDraining();
  request.set_model("tiny");
  EXPECT_EQ(ReasonOf(Call(edge, &v1::TokenizerService::Stub::Tokenize, request, &tokens)), "DRAINING");
}

}  // namespace
}  // namespace dunlin::server
