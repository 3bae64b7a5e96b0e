// SPDX-License-Identifier: Apache-2.0
// Wire -> ClientRequest: what arrives where; OutputChunk -> wire.
#include "server/fronts/dunlin_v1/generate_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dunlin/v1/model.pb.h"
#include "engine/request/draw_params.h"
#include "server/fronts/dunlin_v1/chat_messages.h"
#include "server/fronts/dunlin_v1/field_names.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

v1::GenerateRequest Wire() {
  v1::GenerateRequest wire;
  wire.set_model("m");
  for (const int id : {1, 2, 3}) wire.mutable_token_ids()->add_ids(id);
  return wire;
}

TEST(GenerateRequest, UnsetFieldsStayEmpty) {
  v1::GenerateRequest wire = Wire();
  ClientRequest request;
  ASSERT_TRUE(GenerateRequestFromWire(&wire, &request).ok());
  EXPECT_EQ(request.model, "m");
  EXPECT_THAT(std::get<std::vector<engine::TokenId>>(request.prompt), ElementsAre(1, 2, 3));
  EXPECT_FALSE(request.sampling.temperature.has_value());
  EXPECT_FALSE(request.sampling.top_k.has_value());
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_FALSE(request.stopping.max_tokens.has_value());
  EXPECT_FALSE(request.output.logprobs.has_value());
  EXPECT_FALSE(request.execution.device.has_value());
  EXPECT_EQ(request.num_outputs, 1);
}

TEST(GenerateRequest, SetFieldsArriveWhereTheyBelong) {
  v1::GenerateRequest wire = Wire();
  v1::Sampling& sampling = *wire.mutable_sampling();
  sampling.set_temperature(0);
  sampling.set_top_k(0);
  sampling.set_top_p(0.5F);
  sampling.set_min_p(0.25F);
  sampling.set_repetition_penalty(1.5F);
  sampling.set_presence_penalty(-1);
  sampling.set_frequency_penalty(2);
  sampling.set_seed(0);
  sampling.set_n(8);
  (*sampling.mutable_logit_bias())[9] = 1;
  (*sampling.mutable_logit_bias())[3] = -100;
  wire.mutable_stopping()->set_max_tokens(10);
  wire.mutable_stopping()->set_min_tokens(2);
  wire.mutable_stopping()->add_stop("end");
  wire.mutable_stopping()->add_stop_token_ids(7);
  wire.mutable_stopping()->set_ignore_eos(true);
  wire.mutable_stopping()->set_include_stop(true);
  wire.mutable_execution()->set_device(v1::DEVICE_CPU);
  wire.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_EFFICIENT);
  wire.mutable_execution()->set_precision(v1::PRECISION_FP8);
  wire.mutable_execution()->set_allow_fallback(true);
  wire.mutable_execution()->set_speculation("12");
  wire.mutable_output()->set_logprobs(0);
  wire.mutable_output()->set_prompt_logprobs(20);
  wire.mutable_output()->set_keep_special_tokens(true);
  wire.mutable_output()->set_omit_text(true);
  wire.set_priority(-100);
  wire.set_cache_salt("salt");
  wire.set_request_id("mine");

  ClientRequest request;
  ASSERT_TRUE(GenerateRequestFromWire(&wire, &request).ok());
  EXPECT_EQ(request.sampling.temperature, 0.0F);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.top_p, 0.5F);
  EXPECT_EQ(request.sampling.min_p, 0.25F);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(request.sampling.presence_penalty, -1.0F);
  EXPECT_EQ(request.sampling.frequency_penalty, 2.0F);
  EXPECT_EQ(request.sampling.seed, 0U);
  EXPECT_THAT(request.sampling.logit_bias, UnorderedElementsAre(Pair(3, -100.0F), Pair(9, 1.0F)));
  EXPECT_EQ(request.num_outputs, 8);
  EXPECT_EQ(request.stopping.max_tokens, 10);
  EXPECT_EQ(request.stopping.min_tokens, 2);
  EXPECT_THAT(request.stopping.stop, ElementsAre("end"));
  EXPECT_THAT(request.stopping.stop_token_ids, ElementsAre(7));
  EXPECT_TRUE(request.stopping.ignore_eos);
  EXPECT_TRUE(request.stopping.include_stop);
  EXPECT_EQ(request.execution.device, engine::DeviceKind::kCpu);
  EXPECT_EQ(request.execution.attention_backend, engine::AttentionBackend::kEfficient);
  EXPECT_EQ(request.execution.precision, engine::Precision::kFp8);
  EXPECT_TRUE(request.execution.allow_fallback);
  EXPECT_EQ(request.execution.max_drafts, 12);
  EXPECT_EQ(request.output.logprobs, 0);
  EXPECT_EQ(request.output.prompt_logprobs, 20);
  EXPECT_TRUE(request.output.keep_special_tokens);
  EXPECT_TRUE(request.output.omit_text);
  EXPECT_EQ(request.priority, -100);
  EXPECT_EQ(request.cache_salt, "salt");
  EXPECT_EQ(request.request_id, "mine");
}

TEST(GenerateRequest, EverySamplingParameterIsAFieldWithPresence) {
  using google::protobuf::FieldDescriptor;
  for (const engine::DrawParamTraits& row : engine::kDrawParamTable) {
    const bool is_float = std::holds_alternative<engine::FloatParam>(row.param);
    const FieldDescriptor::CppType type = is_float ? FieldDescriptor::CPPTYPE_FLOAT : FieldDescriptor::CPPTYPE_INT32;
    const FieldDescriptor* field = v1::Sampling::descriptor()->FindFieldByName(row.name());
    ASSERT_NE(field, nullptr) << row.name();
    EXPECT_TRUE(field->has_presence()) << row.name();
    EXPECT_EQ(field->cpp_type(), type) << row.name();
    EXPECT_EQ(kGenerateFieldNames[row.field], absl::StrCat("sampling.", row.name()));

    const FieldDescriptor* reported = v1::GenerationDefaults::descriptor()->FindFieldByName(row.name());
    ASSERT_EQ(reported != nullptr, row.config_low.has_value()) << row.name();
    if (reported != nullptr) {
      EXPECT_EQ(reported->cpp_type(), type) << row.name();
    }
  }
}

TEST(GenerateRequest, WhatLimitsTokensAndPromptArrivesToo) {
  v1::GenerateRequest wire = Wire();
  v1::Sampling& sampling = *wire.mutable_sampling();
  sampling.add_allowed_token_ids(11);
  sampling.add_bad_words_ids()->add_ids(12);
  sampling.mutable_bad_words_ids(0)->add_ids(13);
  sampling.add_bad_words("bad");
  sampling.set_ignore_model_bans(true);
  wire.set_truncate_prompt_tokens(2);
  wire.mutable_output()->set_echo(true);

  ClientRequest request;
  ASSERT_TRUE(GenerateRequestFromWire(&wire, &request).ok());
  EXPECT_THAT(request.sampling.allowed_token_ids, ElementsAre(11));
  EXPECT_THAT(request.sampling.bad_words_ids, ElementsAre(ElementsAre(12, 13)));
  EXPECT_THAT(request.sampling.bad_words, ElementsAre("bad"));
  EXPECT_TRUE(request.sampling.ignore_model_bans);
  EXPECT_EQ(request.truncate_prompt_tokens, 2);
  EXPECT_TRUE(request.output.echo);
}

TEST(GenerateRequest, EveryKindOfInputBecomesAPrompt) {
  v1::GenerateRequest wire;
  ClientRequest request;
  ASSERT_TRUE(GenerateRequestFromWire(&wire, &request).ok());
  EXPECT_TRUE(std::holds_alternative<std::monostate>(request.prompt));
  wire.set_text("hello");
  ASSERT_TRUE(GenerateRequestFromWire(&wire, &request).ok());
  EXPECT_EQ(std::get<std::string>(request.prompt), "hello");
  v1::ChatMessage& message = *wire.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("hi");
  ASSERT_TRUE(GenerateRequestFromWire(&wire, &request).ok());
  const auto& chat = std::get<text::ChatInput>(request.prompt);
  ASSERT_EQ(chat.messages.size(), 1U);
  EXPECT_EQ(chat.messages[0].role, "user");
  EXPECT_EQ(chat.messages[0].content, "hi");
}

TEST(GenerateRequest, AChatKeepsEveryField) {
  v1::Chat wire;
  v1::ChatMessage& message = *wire.add_messages();
  message.set_role("assistant");
  message.set_name("n");
  message.set_tool_call_id("t");
  message.set_reasoning_content("r");
  message.set_extra_fields_json("{}");
  v1::ContentPart& part = *message.add_parts();
  part.set_type("text");
  part.set_text("p");
  v1::ToolCall& call = *message.add_tool_calls();
  call.set_id("i");
  call.set_name("f");
  call.set_arguments_json("[]");
  wire.set_tools_json("[1]");
  wire.set_template_options_json("[2]");
  wire.set_parse_special_tokens(true);
  v1::Chat copy = wire;
  const text::ChatInput chat = ChatFromWire(&copy);
  ASSERT_EQ(chat.messages.size(), 1U);
  const text::ChatMessage& read = chat.messages[0];
  EXPECT_EQ(read.role + read.name + read.tool_call_id + read.reasoning_content + read.extra_fields_json,
            "assistantntr{}");
  EXPECT_FALSE(read.content.has_value());
  ASSERT_EQ(read.parts.size(), 1U);
  EXPECT_EQ(read.parts[0].type + read.parts[0].text, "textp");
  ASSERT_EQ(read.tool_calls.size(), 1U);
  EXPECT_EQ(read.tool_calls[0].id + read.tool_calls[0].name + read.tool_calls[0].arguments_json, "if[]");
  EXPECT_EQ(chat.tools_json + chat.template_options_json, "[1][2]");
  EXPECT_TRUE(chat.parse_special_tokens);
  EXPECT_TRUE(chat.add_generation_prompt) << "the default";
  copy = wire;
  copy.set_continue_final_message(true);
  EXPECT_FALSE(ChatFromWire(&copy).add_generation_prompt) << "the default when a message is continued";
  copy = wire;
  copy.set_add_generation_prompt(false);
  EXPECT_FALSE(ChatFromWire(&copy).add_generation_prompt);
}

TEST(GenerateRequest, PartsKeepTheirOrderAndTheirImages) {
  v1::Chat wire;
  v1::ChatMessage& message = *wire.add_messages();
  v1::ContentPart& image = *message.add_parts();
  image.set_type("image");
  image.set_image(std::string("\x89PNG\0", 5));
  message.add_parts()->set_type("image");
  v1::ContentPart& text = *message.add_parts();
  text.set_type("text");
  text.set_text("what?");
  const text::ChatInput chat = ChatFromWire(&wire);
  ASSERT_EQ(chat.messages[0].parts.size(), 3U);
  const std::vector<text::ChatPart>& parts = chat.messages[0].parts;
  EXPECT_EQ(parts[0].type, "image");
  ASSERT_NE(parts[0].image, nullptr);
  EXPECT_EQ(*parts[0].image, std::string("\x89PNG\0", 5));
  EXPECT_EQ(parts[1].image, nullptr) << "an image without bytes is for the core to refuse";
  EXPECT_EQ(parts[2].text, "what?");
  EXPECT_EQ(parts[2].image, nullptr);
}

TEST(GenerateRequest, ANumberOutsideOfItsEnumLeavesTheRestReadable) {
  v1::GenerateRequest wire = Wire();
  wire.set_request_id("mine");
  wire.mutable_execution()->set_precision(static_cast<v1::Precision>(99));
  ClientRequest request;
  const absl::Status status = GenerateRequestFromWire(&wire, &request);
  EXPECT_EQ(status.message(), "execution.precision is 99; limit is [0, 7]");
  EXPECT_EQ(request.request_id, "mine");
  EXPECT_EQ(request.model, "m");
}

TEST(GenerateResponse, HasWhatTheChunkHasAndNothingOfTheOneBefore) {
  OutputChunk chunk;
  chunk.request_id = "mine";
  chunk.profile = engine::ExecutionProfile();
  chunk.index = 2;
  chunk.token_ids = {4, 9};
  chunk.text = "ab";
  const engine::TopLogprob top[] = {{4, -0.5F}, {7, -1.5F}};
  chunk.logprobs.Add({.id = 4, .logprob = -0.5F, .rank = 1}, top, nullptr);
  chunk.logprobs.Add({.id = 9, .logprob = -2.0F, .rank = 3}, {}, nullptr);
  OutputFinish finish;
  finish.usage = {5, 4, 9};
  finish.timings = {2.0, 3.5, 10.0};
  finish.stop_token_id = 7;
  chunk.finish = finish;
  v1::GenerateResponse wire;
  ChunkToWire(chunk, &wire);
  EXPECT_EQ(wire.request_id(), "mine");
  EXPECT_TRUE(wire.has_execution());
  EXPECT_EQ(wire.index(), 2);
  EXPECT_THAT(wire.token_ids(), ElementsAre(4, 9));
  EXPECT_EQ(wire.text_delta(), "ab");
  ASSERT_EQ(wire.logprobs_size(), 2);
  EXPECT_EQ(wire.logprobs(0).top(1).token_id(), 7);
  EXPECT_EQ(wire.logprobs(1).logprob(), -2.0F);
  EXPECT_EQ(wire.logprobs(1).rank(), 3);
  EXPECT_EQ(wire.logprobs(1).top_size(), 0);
  EXPECT_EQ(wire.finish().reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(wire.finish().stop_token_id(), 7);
  EXPECT_EQ(wire.finish().usage().prompt_tokens(), 5);
  EXPECT_EQ(wire.finish().usage().cached_tokens(), 4);
  EXPECT_EQ(wire.finish().usage().completion_tokens(), 9);
  EXPECT_DOUBLE_EQ(wire.finish().timings().queue_ms(), 2.0);
  EXPECT_DOUBLE_EQ(wire.finish().timings().ttft_ms(), 3.5);
  EXPECT_DOUBLE_EQ(wire.finish().timings().total_ms(), 10.0);

  chunk.Clear();
  chunk.index = 0;
  OutputFinish stopped;
  stopped.stop_string = "END";
  chunk.finish = stopped;
  ChunkToWire(chunk, &wire);
  EXPECT_EQ(wire.request_id(), "");
  EXPECT_FALSE(wire.has_execution());
  EXPECT_EQ(wire.token_ids_size(), 0);
  EXPECT_EQ(wire.logprobs_size(), 0);
  EXPECT_EQ(wire.finish().stop(), "END");
  EXPECT_EQ(wire.finish().constraint_error(), "");

  OutputFinish bounded;
  bounded.reason = engine::FinishReason::kConstraint;
  bounded.constraint_error = "limit is 250 ms";
  chunk.finish = bounded;
  ChunkToWire(chunk, &wire);
  EXPECT_EQ(wire.finish().reason(), v1::FINISH_REASON_CONSTRAINT);
  EXPECT_EQ(wire.finish().constraint_error(), "limit is 250 ms");
}

}  // namespace
}  // namespace dunlin::server
