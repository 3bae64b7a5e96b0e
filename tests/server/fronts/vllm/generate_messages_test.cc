// SPDX-License-Identifier: Apache-2.0
// vllm.GenerateRequest -> ClientRequest: what arrives where, and what is refused by its name; OutputChunk -> wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "server/fronts/vllm/generate_request.h"
#include "server/fronts/vllm/generate_response.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using text::GrammarKind;

::vllm::GenerateRequest Wire() {
  ::vllm::GenerateRequest wire;
  wire.set_model("m");
  for (const uint32_t id : {1, 2, 3}) wire.mutable_token_ids()->add_ids(id);
  return wire;
}

struct Read {
  ClientRequest request;
  VllmResponseFields fields;
  absl::Status status;
};

Read FromWire(::vllm::GenerateRequest wire, bool streams = true) {
  Read read;
  read.status = VllmRequestFromWire(&wire, streams, &read.request, &read.fields);
  return read;
}

TEST(VllmRequest, UnsetFieldsHaveTheDefaultsOfVllm) {
  const Read read = FromWire(Wire());
  ASSERT_TRUE(read.status.ok()) << read.status;
  const ClientRequest& request = read.request;
  EXPECT_EQ(request.model, "m");
  EXPECT_THAT(std::get<std::vector<engine::TokenId>>(request.prompt), ElementsAre(1, 2, 3));
  EXPECT_FALSE(request.sampling.temperature.has_value());
  EXPECT_TRUE(request.sampling.greedy_by_default);
  EXPECT_FALSE(request.sampling.top_k.has_value());
  EXPECT_FALSE(request.sampling.top_p.has_value());
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_FALSE(request.sampling.repetition_penalty.has_value());
  EXPECT_EQ(request.stopping.max_tokens, 20);
  EXPECT_TRUE(request.stopping.clamp_max_tokens);
  EXPECT_FALSE(request.output.logprobs.has_value());
  EXPECT_FALSE(request.output.prompt_logprobs.has_value());
  EXPECT_FALSE(request.output.keep_special_tokens);
  EXPECT_FALSE(request.output.omit_text);
  EXPECT_FALSE(request.truncate_prompt_tokens.has_value());
  EXPECT_FALSE(request.structured_output.has_value());
  EXPECT_EQ(request.num_outputs, 1);
  EXPECT_EQ(request.priority, 0);
  EXPECT_FALSE(request.bypass_prefix_cache);
  EXPECT_TRUE(read.fields.output_text);
  EXPECT_FALSE(read.fields.output_token_ids);
}

TEST(VllmRequest, AnUnsignedNumberThatIsTooLargeStaysSo) {
  ::vllm::GenerateRequest wire = Wire();
  wire.mutable_sampling()->set_top_k(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(FromWire(wire).request.sampling.top_k, std::numeric_limits<int32_t>::max());
}

constexpr uint32_t kLarge = 4294967295;

TEST(VllmRequest, NumbersBeyondTheCoresAreRefusedByTheirOwnValue) {
  const struct {
    const char* field;
    std::function<void(::vllm::GenerateRequest*)> set;
  } kRows[] = {
      {"token_ids.ids[3]", [](auto* w) { w->mutable_token_ids()->add_ids(kLarge); }},
      {"sampling.num_sequences", [](auto* w) { w->mutable_sampling()->set_num_sequences(kLarge); }},
      {"decoding.logit_bias key", [](auto* w) { (*w->mutable_decoding()->mutable_logit_bias())[kLarge] = 1; }},
      {"decoding.allowed_token_ids[0]", [](auto* w) { w->mutable_decoding()->add_allowed_token_ids(kLarge); }},
      {"decoding.bad_words_token_ids[0].ids[0]",
       [](auto* w) { w->mutable_decoding()->add_bad_words_token_ids()->add_ids(kLarge); }},
      {"stopping.max_new_tokens", [](auto* w) { w->mutable_stopping()->set_max_new_tokens(kLarge); }},
      {"stopping.min_new_tokens", [](auto* w) { w->mutable_stopping()->set_min_new_tokens(kLarge); }},
      {"stopping.stop_token_ids[0]", [](auto* w) { w->mutable_stopping()->add_stop_token_ids(kLarge); }},
      {"truncate_prompt_tokens", [](auto* w) { w->set_truncate_prompt_tokens(kLarge); }},
      {"response.output_candidates.top_n",
       [](auto* w) { w->mutable_response()->mutable_output_candidates()->set_top_n(kLarge); }},
  };
  for (const auto& row : kRows) {
    ::vllm::GenerateRequest wire = Wire();
    row.set(&wire);
    const absl::Status status = FromWire(wire).status;
    EXPECT_EQ(status.message(), std::string(row.field) + " is 4294967295; limit is [0, 2147483647]");
    EXPECT_EQ(DetailsOf(status).field, row.field);
  }
}

TEST(VllmRequest, SetFieldsArriveWhereTheyBelong) {
  ::vllm::GenerateRequest wire = Wire();
  wire.set_request_id("r");
  wire.set_temperature(0.5F);
  wire.mutable_sampling()->set_num_sequences(3);
  wire.mutable_sampling()->set_top_k(0);
  wire.mutable_sampling()->set_top_p(0.25F);
  wire.mutable_sampling()->set_min_p(0.125F);
  wire.mutable_sampling()->set_seed(-1);
  wire.mutable_decoding()->set_presence_penalty(1);
  wire.mutable_decoding()->set_frequency_penalty(-1);
  wire.mutable_decoding()->set_repetition_penalty(1.5F);
  (*wire.mutable_decoding()->mutable_logit_bias())[9] = -2;
  wire.mutable_decoding()->add_allowed_token_ids(4);
  wire.mutable_decoding()->add_bad_words_token_ids()->add_ids(6);
  wire.mutable_stopping()->set_max_new_tokens(7);
  wire.mutable_stopping()->set_min_new_tokens(2);
  wire.mutable_stopping()->add_stop_token_ids(8);
  wire.mutable_stopping()->add_stop_strings("end");
  wire.mutable_stopping()->set_include_stop_strings(true);
  wire.mutable_stopping()->set_ignore_eos(true);
  wire.mutable_stopping()->set_thinking_token_budget(-1);
  wire.mutable_response()->set_prompt_token_ids(true);
  wire.mutable_response()->set_output_logprobs(true);
  wire.mutable_response()->mutable_output_candidates()->set_top_n(5);
  wire.mutable_response()->set_output_token_ids(true);
  wire.mutable_response()->set_skip_special_tokens(false);
  wire.mutable_kv()->set_bypass_prefix_cache(true);
  wire.mutable_kv()->set_cache_salt("salt");
  wire.set_truncate_prompt_tokens(2);
  wire.set_priority(-4);
  wire.set_session_id("s");
  wire.set_watermarking(true);
  wire.mutable_engine_reasoning_gate()->set_reasoning_ended(true);
  const Read read = FromWire(wire);
  ASSERT_TRUE(read.status.ok()) << read.status;
  const ClientRequest& request = read.request;
  EXPECT_EQ(request.request_id, "r");
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.num_outputs, 3);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_EQ(request.sampling.top_p, 0.25F);
  EXPECT_EQ(request.sampling.min_p, 0.125F);
  EXPECT_EQ(request.sampling.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(request.sampling.presence_penalty, 1);
  EXPECT_EQ(request.sampling.frequency_penalty, -1);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5F);
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(Pair(9, -2)));
  EXPECT_THAT(request.sampling.allowed_token_ids, ElementsAre(4));
  EXPECT_THAT(request.sampling.bad_words_ids, ElementsAre(ElementsAre(6)));
  EXPECT_EQ(request.stopping.max_tokens, 7);
  EXPECT_EQ(request.stopping.min_tokens, 2);
  EXPECT_THAT(request.stopping.stop_token_ids, ElementsAre(8));
  EXPECT_THAT(request.stopping.stop, ElementsAre("end"));
  EXPECT_TRUE(request.stopping.include_stop);
  EXPECT_TRUE(request.stopping.ignore_eos);
  EXPECT_TRUE(request.output.prompt_token_ids);
  EXPECT_EQ(request.output.logprobs, 5);
  EXPECT_TRUE(request.output.keep_special_tokens);
  EXPECT_TRUE(request.bypass_prefix_cache);
  EXPECT_EQ(request.cache_salt, "salt");
  EXPECT_EQ(request.truncate_prompt_tokens, 2);
  EXPECT_EQ(request.priority, 4) << "lower ones run first in vLLM, higher ones here";
  EXPECT_TRUE(read.fields.output_token_ids);
  EXPECT_THAT(read.fields.stop_token_ids, ElementsAre(8));
}

TEST(VllmRequest, StructuredOutputIsOurs) {
  const auto source = [](const std::function<void(::vllm::DecodingParameters*)>& set) {
    ::vllm::GenerateRequest wire = Wire();
    set(wire.mutable_decoding());
    return FromWire(wire).request.structured_output;
  };
  EXPECT_EQ(source([](auto* d) { d->set_json("{}"); }), (text::GrammarSource{GrammarKind::kJsonSchema, "{}", {}}));
  EXPECT_EQ(source([](auto* d) { d->set_regex("a+"); }), (text::GrammarSource{GrammarKind::kRegex, "a+", {}}));
  EXPECT_EQ(source([](auto* d) { d->set_grammar("g"); }), (text::GrammarSource{GrammarKind::kGrammar, "g", {}}));
  EXPECT_EQ(source([](auto* d) { d->mutable_choice()->add_choices("x"); }),
            (text::GrammarSource{GrammarKind::kChoice, "", {"x"}}));
  EXPECT_EQ(source([](auto* d) { d->set_json_object(true); }), (text::GrammarSource{GrammarKind::kJsonObject, "", {}}));
  EXPECT_EQ(source([](auto* d) { d->set_json_object(false); }), std::nullopt);
}

TEST(VllmRequest, NamesWhatItDoesNotSupport) {
  const struct {
    const char* field;
    std::function<void(::vllm::GenerateRequest*)> set;
  } kRows[] = {
      {"media", [](auto* w) { w->add_media(); }},
      {"kv_hints.actions", [](auto* w) { w->mutable_kv_hints()->add_actions(); }},
      {"kv.kv_transfer_params", [](auto* w) { w->mutable_kv()->mutable_kv_transfer_params(); }},
      {"kv.ec_transfer_params", [](auto* w) { w->mutable_kv()->mutable_ec_transfer_params(); }},
      {"engine_reasoning_gate.reasoning_ended",
       [](auto* w) { w->mutable_engine_reasoning_gate()->set_reasoning_ended(false); }},
      {"stopping.thinking_token_budget", [](auto* w) { w->mutable_stopping()->set_thinking_token_budget(0); }},
      {"decoding.structural_tag", [](auto* w) { w->mutable_decoding()->set_structural_tag("t"); }},
      {"response.output_candidates.all",
       [](auto* w) { w->mutable_response()->mutable_output_candidates()->set_all(true); }},
      {"response.output_candidates.token_ids",
       [](auto* w) { w->mutable_response()->mutable_output_candidates()->mutable_token_ids()->add_ids(1); }},
      {"response.prompt_candidates.token_ids",
       [](auto* w) { w->mutable_response()->mutable_prompt_candidates()->mutable_token_ids()->add_ids(1); }},
  };
  for (const auto& row : kRows) {
    ::vllm::GenerateRequest wire = Wire();
    row.set(&wire);
    const absl::Status status = FromWire(wire).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.field;
    EXPECT_EQ(DetailsOf(status).field, row.field);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not supported; limit is "));
  }
}

TEST(VllmRequest, OneResponseHasRoomForOneOutput) {
  ::vllm::GenerateRequest wire = Wire();
  wire.mutable_sampling()->set_num_sequences(2);
  EXPECT_EQ(DetailsOf(FromWire(wire, false).status).field, "sampling.num_sequences");
  EXPECT_TRUE(FromWire(wire, true).status.ok());
  wire.mutable_response()->set_prompt_logprobs(true);
  EXPECT_EQ(DetailsOf(FromWire(wire, true).status).field, "sampling.num_sequences");
}

TEST(VllmRequest, TheLeastPriorityHasAnOpposite) {
  ::vllm::GenerateRequest wire = Wire();
  wire.set_priority(std::numeric_limits<int32_t>::min());
  const Read read = FromWire(wire);
  ASSERT_TRUE(read.status.ok());
  EXPECT_EQ(read.request.priority, std::numeric_limits<int32_t>::max());
}

TEST(VllmRequest, TextIsMadeForStopStringsThoughItIsNotSent) {
  ::vllm::GenerateRequest wire = Wire();
  wire.mutable_response()->set_output_text(false);
  EXPECT_TRUE(FromWire(wire).request.output.omit_text);
  wire.mutable_stopping()->add_stop_strings("x");
  EXPECT_FALSE(FromWire(wire).request.output.omit_text);
  EXPECT_FALSE(FromWire(wire).fields.output_text);
}

OutputChunk Chunk(std::vector<engine::TokenId> tokens, const std::string& text) {
  OutputChunk chunk;
  chunk.token_ids = std::move(tokens);
  chunk.text = text;
  return chunk;
}

void Score(engine::TokenId token, float logprob, int32_t rank, std::vector<engine::TopLogprob> top,
           TokenLogprobs* logprobs) {
  TokenRing::Token scored{};
  scored.id = token;
  scored.logprob = logprob;
  scored.rank = rank;
  logprobs->Add(scored, top, nullptr);
}

TEST(VllmResponsesTest, TheFirstMessageSaysWhatThePromptIs) {
  const VllmResponses responses(VllmResponseFields{});
  OutputChunk chunk;
  chunk.num_prompt_tokens = 3;
  chunk.prompt_token_ids = {1, 2, 3};
  ::vllm::GenerateResponse wire;
  EXPECT_TRUE(responses.Add(chunk, &wire));
  EXPECT_EQ(wire.prompt_info().num_prompt_tokens(), 3U);
  EXPECT_THAT(wire.prompt_info().token_ids(), ElementsAre(1, 2, 3));
  EXPECT_THAT(wire.prompt_info().logprobs(), IsEmpty());
  EXPECT_FALSE(wire.has_outputs());
}

TEST(VllmResponsesTest, ScoresOfThePromptGoOutTogether) {
  VllmResponseFields fields;
  fields.prompt_logprobs = true;
  const VllmResponses responses(fields);
  ::vllm::GenerateResponse wire;
  OutputChunk first;
  first.num_prompt_tokens = 3;
  EXPECT_FALSE(responses.Add(first, &wire));
  OutputChunk scores;
  Score(5, -1, 2, {{4, -0.5F}, {5, -1}}, &scores.prompt_logprobs);
  EXPECT_FALSE(responses.Add(scores, &wire));
  OutputChunk more;
  Score(6, -2, 7, {{4, -0.25F}, {3, -3}}, &more.prompt_logprobs);
  EXPECT_FALSE(responses.Add(more, &wire));
  EXPECT_TRUE(responses.Add(Chunk({9}, "x"), &wire));
  EXPECT_THAT(wire.prompt_info().logprobs(), ElementsAre(0, -1, -2));
  EXPECT_THAT(wire.prompt_info().ranks(), ElementsAre(0, 2, 7));
  ASSERT_EQ(wire.prompt_info().candidate_tokens_size(), 3);
  EXPECT_EQ(wire.prompt_info().candidate_tokens(0).tokens_size(), 0);
  ASSERT_EQ(wire.prompt_info().candidate_tokens(1).tokens_size(), 1) << "the token itself is no candidate";
  EXPECT_EQ(wire.prompt_info().candidate_tokens(1).tokens(0).id(), 4U);
  EXPECT_EQ(wire.prompt_info().candidate_tokens(1).tokens(0).rank(), 1U);
  ASSERT_EQ(wire.prompt_info().candidate_tokens(2).tokens_size(), 2);
  EXPECT_EQ(wire.prompt_info().candidate_tokens(2).tokens(1).rank(), 2U);
  EXPECT_EQ(wire.outputs().text(), "x");
}

TEST(VllmResponsesTest, ChunksAddUpToOneResponse) {
  VllmResponseFields fields;
  fields.output_token_ids = true;
  fields.stop_token_ids = {8};
  const VllmResponses responses(fields);
  ::vllm::GenerateResponse wire;
  OutputChunk chunk = Chunk({1, 2}, "ab");
  Score(1, -1, 1, {}, &chunk.logprobs);
  Score(2, -2, 3, {}, &chunk.logprobs);
  EXPECT_TRUE(responses.Add(chunk, &wire));
  OutputChunk last = Chunk({8}, "c");
  last.index = 0;
  last.finish.emplace();
  last.finish->usage = {5, 4, 3};
  last.finish->stop_token_id = 8;
  EXPECT_TRUE(responses.Add(last, &wire));
  EXPECT_EQ(wire.outputs().text(), "abc");
  EXPECT_EQ(wire.outputs().num_tokens(), 3U);
  EXPECT_THAT(wire.outputs().token_ids(), ElementsAre(1, 2, 8));
  EXPECT_THAT(wire.outputs().logprobs(), ElementsAre(-1, -2));
  EXPECT_THAT(wire.outputs().ranks(), ElementsAre(1, 3));
  EXPECT_EQ(wire.outputs().candidate_tokens_size(), 2);
  const ::vllm::FinishInfo& finish = wire.outputs().finish_info();
  EXPECT_EQ(finish.num_output_tokens(), 3U);
  EXPECT_EQ(finish.num_cached_tokens(), 4U);
  EXPECT_EQ(finish.finish_reason(), ::vllm::FinishInfo::STOP);
  EXPECT_EQ(finish.stop_token_id(), 8U);
}

TEST(VllmResponsesTest, SaysWhyAnOutputEnded) {
  const VllmResponses responses(VllmResponseFields{});
  const auto finish = [&responses](const OutputFinish& of) {
    OutputChunk chunk;
    chunk.finish = of;
    ::vllm::GenerateResponse wire;
    responses.Add(chunk, &wire);
    return wire.outputs().finish_info();
  };
  OutputFinish of;
  of.stop_token_id = 2;
  EXPECT_EQ(finish(of).eos_token_id(), 2U) << "a token that the request does not name is the model's own";
  of.stop_token_id.reset();
  of.stop_string = "end";
  EXPECT_EQ(finish(of).stop_string(), "end");
  of.stop_string.reset();
  of.reason = engine::FinishReason::kLength;
  EXPECT_EQ(finish(of).finish_reason(), ::vllm::FinishInfo::LENGTH);
  EXPECT_EQ(finish(of).stop_reason_case(), ::vllm::FinishInfo::STOP_REASON_NOT_SET);
  of.reason = engine::FinishReason::kConstraint;
  EXPECT_EQ(finish(of).finish_reason(), ::vllm::FinishInfo::LENGTH) << "the text may be incomplete";
}

}  // namespace
}  // namespace dunlin::server
