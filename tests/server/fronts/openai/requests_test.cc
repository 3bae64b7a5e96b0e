// SPDX-License-Identifier: Apache-2.0
// Bodies to requests: where every field arrives, how items and blocks become messages, and what is refused in which
// words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_messages.h"
#include "server/fronts/openai/chat_completions.h"
#include "server/fronts/openai/completions.h"
#include "server/fronts/openai/embeddings.h"
#include "server/fronts/openai/rerank.h"
#include "server/fronts/openai/responses.h"
#include "server/fronts/openai/tokenize.h"
#include "server/serving/record/errors.h"
#include "tests/server/fronts/openai/read_request.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::Pair;
using text::GrammarKind;

TEST(Requests, SamplingFieldsArriveWhereTheyBelong) {
  ClientRequest request;
  const absl::Status status = Read<CompletionsTranslator>(
      R"({"model":"m","prompt":[1,2],"temperature":0,"top_p":0.5,"top_k":-1,"min_p":0.25,"repetition_penalty":1.5,
          "presence_penalty":-1,"frequency_penalty":2,"seed":-1,"logit_bias":{"7":-100,"9":1.5},
          "allowed_token_ids":[3],"bad_words":["x"],"bad_words_ids":[[1,2]],"ignore_model_bans":true,"max_tokens":9,
          "min_tokens":2,"stop":"end","stop_token_ids":[4],"ignore_eos":true,"include_stop_str_in_output":true,
          "skip_special_tokens":false,"truncate_prompt_tokens":8,"n":2,"best_of":2,"logprobs":3,"echo":false,
          "priority":-5,"cache_salt":"s","request_id":"mine","device":"cpu","attention_backend":"math",
          "precision":"auto","allow_fallback":true,"speculation":3,"parse_special_tokens":true})",
      &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(std::get<std::vector<engine::TokenId>>(request.prompt), ElementsAre(1, 2));
  const ClientSampling& sampling = request.sampling;
  EXPECT_EQ(sampling.temperature, 0.0F);
  EXPECT_EQ(sampling.top_p, 0.5F);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.min_p, 0.25F);
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(sampling.presence_penalty, -1.0F);
  EXPECT_EQ(sampling.frequency_penalty, 2.0F);
  EXPECT_EQ(sampling.seed, ~uint64_t{0});
  EXPECT_THAT(sampling.logit_bias, ElementsAre(Pair(7, -100.0F), Pair(9, 1.5F)));
  EXPECT_THAT(sampling.allowed_token_ids, ElementsAre(3));
  EXPECT_THAT(sampling.bad_words, ElementsAre("x"));
  EXPECT_THAT(sampling.bad_words_ids, ElementsAre(ElementsAre(1, 2)));
  EXPECT_TRUE(sampling.ignore_model_bans);
  EXPECT_EQ(request.stopping.max_tokens, 9);
  EXPECT_EQ(request.stopping.min_tokens, 2);
  EXPECT_THAT(request.stopping.stop, ElementsAre("end"));
  EXPECT_THAT(request.stopping.stop_token_ids, ElementsAre(4));
  EXPECT_TRUE(request.stopping.ignore_eos && request.stopping.include_stop && request.output.keep_special_tokens);
  EXPECT_EQ(request.truncate_prompt_tokens, 8);
  EXPECT_EQ(request.num_outputs, 2);
  EXPECT_EQ(request.output.logprobs, 3);
  EXPECT_EQ(request.priority, -5);
  EXPECT_EQ(request.model + request.cache_salt + request.request_id, "msmine");
  EXPECT_EQ(request.execution.device, engine::DeviceKind::kCpu);
  EXPECT_EQ(request.execution.attention_backend, engine::AttentionBackend::kMath);
  EXPECT_FALSE(request.execution.precision.has_value());
  EXPECT_TRUE(request.execution.allow_fallback && request.parse_special_tokens);
  EXPECT_EQ(request.execution.max_drafts, 3);
}

TEST(Requests, AChatKeepsItsMessagesToolsAndOptions) {
  ClientRequest request;
  const absl::Status status = Read<ChatCompletionsTranslator>(
      R"({"model":"m","messages":[{"role":"developer","content":"be"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"u"},
          {"role":"assistant","content":null,"refusal":null,"reasoning":"r","tool_calls":[
            {"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},
          {"role":"tool","tool_call_id":"c1","content":"42"}],
          "tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}],
          "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,
          "reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false},"logprobs":true,
          "max_completion_tokens":5,"max_tokens":5,"stop":["x","y"],"user":"someone","metadata":{"a":1}})",
      &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Messages(request),
            R"([{"role":"system","content":"be"},{"role":"user","content":[{"type":"text","text":"a"},)"
            R"({"type":"text","text":"b"}],"name":"u"},{"role":"assistant","reasoning_content":"r","tool_calls":[)"
            R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
            R"({"role":"tool","content":"42","tool_call_id":"c1"}])");
  EXPECT_EQ(ChatOf(request).tools_json, R"([{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}])");
  EXPECT_EQ(ChatOf(request).template_options_json, R"({"reasoning_effort":"low","enable_thinking":false})");
  EXPECT_TRUE(ChatOf(request).add_generation_prompt);
  EXPECT_EQ(request.tool_choice.mode, ClientToolChoice::Mode::kNamed);
  EXPECT_EQ(request.tool_choice.name, "f");
  EXPECT_FALSE(request.tool_choice.parallel);
  EXPECT_EQ(request.output.logprobs, 0);
  EXPECT_EQ(request.stopping.max_tokens, 5);
  EXPECT_THAT(request.stopping.stop, ElementsAre("x", "y"));
}

TEST(Requests, ACompletionTakesSeveralPrompts) {
  const std::pair<const char*, size_t> prompts[] = {{R"("a")", 0},  {R"(["a"])", 0},    {R"(["a","b","c"])", 2},
                                                    {"[1,2,3]", 0}, {"[[1,2],[3]]", 1}, {R"([[1],"b"])", 1}};
  for (const auto& [prompt, further] : prompts) {
    ClientRequest request;
    CompletionsTranslator translator{ResponseFacts()};
    const std::string body = std::string(R"({"model":"m","prompt":)") + prompt + "}";
    ASSERT_TRUE(translator.Read(body, &request).ok()) << body;
    EXPECT_NE(request.prompt.index(), 0U) << body;
    EXPECT_EQ(translator.TakeFurtherPrompts().size(), further) << body;
  }
}

struct Format {
  const char* fields;
  GrammarKind kind;
  const char* text;
};

TEST(Requests, EveryFormOfAConstraintArrives) {
  const Format formats[] = {
      {R"("response_format":{"type":"json_object"})", GrammarKind::kJsonObject, ""},
      {R"("response_format":{"type":"json_object","schema":{"type":"object"}})", GrammarKind::kJsonSchema,
       R"({"type":"object"})"},
      {R"("response_format":{"type":"json_object","schema":null})", GrammarKind::kJsonObject, ""},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"b":1,"a":2}}})",
       GrammarKind::kJsonSchema, R"({"b":1,"a":2})"},
      {R"("structured_outputs":{"regex":"a+"})", GrammarKind::kRegex, "a+"},
      {R"("structured_outputs":{"json":"{}"})", GrammarKind::kJsonSchema, "{}"},
      {R"("structured_outputs":{"grammar":"start: \"a\""})", GrammarKind::kGrammar, "start: \"a\""},
      {R"("guided_choice":["a","b"])", GrammarKind::kChoice, ""},
      {R"("guided_json":{"type":"object"})", GrammarKind::kJsonSchema, R"({"type":"object"})"},
  };
  for (const Format& format : formats) {
    ClientRequest request;
    const std::string body = std::string(R"({"model":"m","messages":[],)") + format.fields + "}";
    ASSERT_TRUE(Read<ChatCompletionsTranslator>(body, &request).ok()) << body;
    ASSERT_TRUE(request.structured_output.has_value()) << body;
    EXPECT_EQ(request.structured_output->kind, format.kind) << body;
    EXPECT_EQ(request.structured_output->text, format.text) << body;
  }
  ClientRequest request;
  ASSERT_TRUE(Read<ChatCompletionsTranslator>(R"({"response_format":{"type":"text"}})", &request).ok());
  EXPECT_FALSE(request.structured_output.has_value());
}

TEST(Requests, ItemsOfAResponseBecomeMessages) {
  ClientRequest request;
  const absl::Status status = Read<ResponsesTranslator>(
      R"({"model":"m","instructions":"be","max_output_tokens":7,"store":false,
          "input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},
          {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"r"}]},
          {"type":"message","role":"assistant","id":"msg_1","status":"completed",
           "content":[{"type":"output_text","text":"b","annotations":[]}]},
          {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
          {"type":"function_call_output","call_id":"c1","output":"42"}],
          "tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true}],
          "tool_choice":{"type":"function","name":"f"},"reasoning":{"effort":"high","summary":"auto"},
          "text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}})",
      &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Messages(request),
            R"([{"role":"system","content":"be"},{"role":"user","content":[{"type":"text","text":"a"}]},)"
            R"({"role":"assistant","content":[{"type":"text","text":"b"}],"reasoning_content":"r","tool_calls":[)"
            R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
            R"({"role":"tool","content":"42","tool_call_id":"c1"}])");
  EXPECT_EQ(ChatOf(request).tools_json,
            R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}])");
  EXPECT_EQ(ChatOf(request).template_options_json, R"({"reasoning_effort":"high"})");
  EXPECT_EQ(request.tool_choice.name, "f");
  EXPECT_EQ(request.stopping.max_tokens, 7);
  EXPECT_EQ(request.ignored.List(), "text.format") << "a call is demanded";
}

TEST(Requests, BlocksOfAMessageBecomeMessages) {
  ClientRequest request;
  const absl::Status status = Read<AnthropicTranslator>(
      R"({"model":"m","max_tokens":7,"system":[{"type":"text","text":"be","cache_control":{"type":"ephemeral"}}],
          "messages":[{"role":"user","content":"a"},
          {"role":"assistant","content":[{"type":"thinking","thinking":"r","signature":""},{"type":"text","text":"b"},
            {"type":"tool_use","id":"c1","name":"f","input":{"z":1}}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"42"}]},
            {"type":"text","text":"go"}]},
          {"role":"assistant","content":"So"}],
          "stop_sequences":["x"],"top_k":3,"tools":[{"name":"f","input_schema":{"type":"object"}}],
          "tool_choice":{"type":"any","disable_parallel_tool_use":true},
          "thinking":{"type":"enabled","budget_tokens":1024},"metadata":{"user_id":"u"}})",
      &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Messages(request),
            R"([{"role":"system","content":[{"type":"text","text":"be"}]},{"role":"user","content":"a"},)"
            R"({"role":"assistant","content":[{"type":"text","text":"b"}],"reasoning_content":"r","tool_calls":[)"
            R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1}"}}]},)"
            R"({"role":"tool","content":[{"type":"text","text":"42"}],"tool_call_id":"c1"},)"
            R"({"role":"user","content":[{"type":"text","text":"go"}]},{"role":"assistant","content":"So"}])");
  EXPECT_TRUE(ChatOf(request).continue_final_message);
  EXPECT_FALSE(ChatOf(request).add_generation_prompt);
  EXPECT_EQ(ChatOf(request).tools_json,
            R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])");
  EXPECT_EQ(ChatOf(request).template_options_json, R"({"enable_thinking":true})");
  EXPECT_EQ(request.tool_choice.mode, ClientToolChoice::Mode::kRequired);
  EXPECT_FALSE(request.tool_choice.parallel);
  EXPECT_THAT(request.stopping.stop, ElementsAre("x"));
  ClientRequest counted;
  EXPECT_TRUE(
      ReadCountTokens(R"({"model":"m","messages":[{"role":"user","content":"a"}]})", /*strict=*/true, &counted).ok());
  EXPECT_EQ(Messages(counted), R"([{"role":"user","content":"a"}])");
}

TEST(Requests, EmbeddingsTakeTextsAndTokenIds) {
  const std::pair<const char*, size_t> inputs[] = {
      {R"("a")", 1}, {R"(["a","b"])", 2}, {"[1,2,3]", 1}, {"[[1,2],[3]]", 2}, {"[]", 0}};
  for (const auto& [input, count] : inputs) {
    ClientEmbedRequest request;
    const std::string body =
        std::string(R"({"model":"m","dimensions":8,"pooling":"cls","normalize":true,"input":)") + input + "}";
    ASSERT_TRUE(EmbeddingsTranslator(ResponseFacts()).Read(body, &request).ok()) << body;
    EXPECT_EQ(request.inputs.size(), count) << body;
    EXPECT_EQ(request.dimensions, 8);
    EXPECT_EQ(request.pooling, engine::Pooling::kCls);
  }
}

TEST(Requests, TokenizeTakesATextOrAChat) {
  TokenizeBody text;
  ASSERT_TRUE(ReadTokenize(R"({"model":"m","prompt":"a","add_special_tokens":false})", nullptr, &text).ok());
  EXPECT_EQ(std::get<std::string>(text.prompt), "a");
  EXPECT_FALSE(text.options.add_special_tokens);
  TokenizeBody chat;
  ASSERT_TRUE(ReadTokenize(R"({"model":"m","messages":[{"role":"user","content":"a"}]})", nullptr, &chat).ok());
  EXPECT_EQ(std::get<text::ChatInput>(chat.prompt).messages.size(), 1U);
  EXPECT_EQ(engine::StdView(ReadTokenize(R"({"model":"m"})", nullptr, &text).message()),
            "prompt is missing; limit is one of prompt and messages");
  DetokenizeBody ids;
  ASSERT_TRUE(ReadDetokenize(R"({"model":"m","tokens":[1,2],"skip_special_tokens":true})", nullptr, &ids).ok());
  EXPECT_THAT(ids.tokens, ElementsAre(1, 2));
  EXPECT_FALSE(ids.keep_special_tokens);
}

TEST(Requests, NamesOfProfilesAreTakenInAnyCase) {
  ClientRequest request;
  const absl::Status status = Read<ChatCompletionsTranslator>(
      R"({"model":"m","messages":[{"role":"user","content":"x"}],"device":"CPU","attention_backend":"Flash",
          "precision":"FP8"})",
      &request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(request.execution.device, engine::DeviceKind::kCpu);
  EXPECT_EQ(request.execution.attention_backend, engine::AttentionBackend::kFlash);
  EXPECT_EQ(request.execution.precision, engine::Precision::kFp8);
  ASSERT_TRUE(Read<ChatCompletionsTranslator>(
                  R"({"model":"m","messages":[{"role":"user","content":"x"}],"precision":"AUTO"})", &request)
                  .ok());
}

struct Refusal {
  absl::Status (*read)(std::string_view, ClientRequest*);
  const char* body;
  const char* message;
};

const Refusal kRefusals[] = {
    {Read<ChatCompletionsTranslator>, R"({"messages":[{"content":"x"}]})",
     "messages[0].role is missing; limit is a string"},
    {Read<ChatCompletionsTranslator>, R"({"functions":[{"name":"f"}]})",
     "functions has a value that is not supported: tools has them; limit is []"},
    {Read<ChatCompletionsTranslator>, R"({"store":1})", "store is 1; limit is true or false"},
    {Read<ChatCompletionsTranslator>, R"({"verbosity":"loud"})",
     "verbosity is \"loud\"; limit is \"low\", \"medium\" or \"high\""},
    {Read<ChatCompletionsTranslator>, R"({"messages":[{"role":"assistant","audio":{"id":"a"}}]})",
     "messages[0].audio is not supported: no audio is stored"},
    {Read<ChatCompletionsTranslator>, R"({"tools":[{"function":{"name":"f"}}]})",
     "tools[0].type is missing; limit is a string"},
    {Read<ChatCompletionsTranslator>, R"({"tool_choice":{"type":"custom","custom":{"name":"f"}}})",
     "tool_choice.type is \"custom\"; limit is \"function\": the server runs no tools of its own"},
    {Read<ChatCompletionsTranslator>,
     R"({"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}})",
     "tool_choice allows a tool that is not there; limit is functions of tools"},
    {Read<ChatCompletionsTranslator>, R"({"max_tokens":1,"max_completion_tokens":2})",
     "max_completion_tokens differs from its other name; limit is 1"},
    {Read<ChatCompletionsTranslator>, R"({"top_logprobs":1})",
     "top_logprobs is given without logprobs; limit is requests with \"logprobs\": true"},
    {Read<ChatCompletionsTranslator>, R"({"stream_options":{"include_usage":true}})",
     "stream_options is given without stream; limit is requests with \"stream\": true"},
    {Read<ChatCompletionsTranslator>, R"({"guided_regex":"a","response_format":{"type":"json_object"}})",
     "response_format.type is a second constraint of the output; limit is one"},
    {Read<ChatCompletionsTranslator>, R"({"response_format":{"type":"json_schema","json_schema":{"name":"n"}}})",
     "response_format.json_schema.schema is missing; limit is an object"},
    {Read<ChatCompletionsTranslator>, R"({"reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"x"}})",
     "chat_template_kwargs.reasoning_effort gives the chat template's variable reasoning_effort twice; limit is once"},
    {Read<ChatCompletionsTranslator>, R"({"attention_backend":"fast"})",
     "attention_backend is \"fast\"; limit is auto, math, flash, efficient"},
    {Read<ChatCompletionsTranslator>, R"({"precision":"a text of the user's"})",
     "precision is another name; limit is auto, fp32, bf16, fp16, fp8, int8, int4"},
    {Read<ChatCompletionsTranslator>, R"({"precision":"abcdefghijklmnopqrstuvwxyz1234567"})",
     "precision is another name; limit is auto, fp32, bf16, fp16, fp8, int8, int4"},
    {Read<ChatCompletionsTranslator>, R"({"logit_bias":{"x":1}})",
     "logit_bias.x has a key that is not a token id; limit is a decimal integer"},
    {Read<CompletionsTranslator>, R"({"prompt":["a",2]})", "prompt[1] is 2; limit is a string"},
    {Read<CompletionsTranslator>, R"({"prompt":[1,2.5]})",
     "prompt[1] is 2.5; limit is an integer in [-2147483648, 2147483647]"},
    {Read<CompletionsTranslator>, R"({"prompt":"a","suffix":"b"})",
     "suffix has a value that is not supported: models here continue a text at its end; limit is \"\""},
    {Read<CompletionsTranslator>, R"({"prompt":"a","best_of":3})", "best_of is 3; limit is n, which is 1"},
    {Read<CompletionsTranslator>, R"({"prompt":"a","echo":true,"logprobs":1,"n":2})",
     "n is 2 beside echo with logprobs; limit is 1"},
    {Read<ResponsesTranslator>, R"({"previous_response_id":"r"})",
     "previous_response_id is not supported: nothing is stored; send the whole input"},
    {Read<ResponsesTranslator>, R"({"truncation":"middle"})",
     "truncation is \"middle\"; limit is \"auto\" or \"disabled\""},
    {Read<ResponsesTranslator>, R"({"tool_choice":{"type":"web_search"}})",
     "tool_choice.type is \"web_search\"; limit is \"function\": the server runs no tools of its own"},
    {Read<ResponsesTranslator>, R"({"input":[{"type":"item_reference","id":"x"}]})",
     "input[0].type is \"item_reference\"; limit is items in full (\"store\": false): nothing is stored"},
    {Read<AnthropicTranslator>, R"({"messages":[]})", "max_tokens is missing; limit is an integer"},
    {Read<AnthropicTranslator>,
     R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"document","title":"t","source":{"type":"base64","data":"x"}}]}]})",
     "messages[0].content[0].source.type is \"base64\"; limit is \"text\" or \"content\": "
     "models here read text, and some of them images"},
    {Read<AnthropicTranslator>,
     R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"search_result","content":[{"type":"image"}]}]}]})",
     "messages[0].content[0].content[0].source is missing; limit is an object"},
    {Read<AnthropicTranslator>, R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_use"}]}]})",
     "messages[0].content[0].type is \"tool_use\"; limit is blocks of the user"},
    {Read<AnthropicTranslator>, R"({"max_tokens":1,"messages":[{"role":"developer","content":"x"}]})",
     "messages[0].role is \"developer\"; limit is \"user\", \"assistant\" or \"system\""},
    {Read<AnthropicTranslator>, R"({"max_tokens":1,"container":"c","messages":[]})",
     "container is not supported: no code is run, and there are no skills"},
};

TEST(Requests, RefusalsNameFieldProblemAndLimit) {
  for (const Refusal& refusal : kRefusals) {
    ClientRequest request;
    const absl::Status status = refusal.read(refusal.body, &request);
    EXPECT_EQ(engine::StdView(status.message()), refusal.message) << refusal.body;
    EXPECT_EQ(ReasonName(status), "INVALID_FIELD") << refusal.body;
  }
}

// Every route reads its body by ParseBody.
TEST(Requests, AKeyTwiceIsRefusedByItsPlaceOnEveryRoute) {
  constexpr char kTwice[] = R"({"model":"m","x":[{"k":1,"k":2}]})";
  ClientRequest request;
  ClientEmbedRequest embed;
  IgnoredNames ignored;
  TokenizeBody tokenize;
  DetokenizeBody detokenize;
  const absl::Status statuses[] = {
      Read<ChatCompletionsTranslator>(kTwice, &request),
      Read<CompletionsTranslator>(kTwice, &request),
      Read<ResponsesTranslator>(kTwice, &request),
      Read<AnthropicTranslator>(kTwice, &request),
      ReadCountTokens(kTwice, /*strict=*/false, &request),
      EmbeddingsTranslator(ResponseFacts()).Read(kTwice, &embed),
      RerankTranslator(ResponseFacts()).Read(kTwice, &embed),
      RerankTranslator(ResponseFacts(), RerankApi::kCohereV2).Read(kTwice, &embed),
      ReadTokenize(kTwice, &ignored, &tokenize),
      ReadDetokenize(kTwice, &ignored, &detokenize),
  };
  for (const absl::Status& status : statuses) EXPECT_EQ(engine::StdView(status.message()), "x[0].k appears twice");
}

}  // namespace
}  // namespace dunlin::server
