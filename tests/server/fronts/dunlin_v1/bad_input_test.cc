// SPDX-License-Identifier: Apache-2.0
// Every bad request gets exactly one refusal, while the server keeps running and a concurrent stream is unaffected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using grpc::StatusCode;

constexpr int kIntMin = std::numeric_limits<int32_t>::min();
constexpr int kIntMax = std::numeric_limits<int32_t>::max();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct BadInput {
  const char* name;
  std::function<void(v1::GenerateRequest*)> spoil;
  StatusCode code;
  const char* reason;
  const char* field;    // of the BadRequest violation; "" for none
  const char* message;  // the whole of it
};

std::vector<BadInput> SamplingCases() {
  const auto sampling = [](auto set) { return [set](v1::GenerateRequest* r) { set(r->mutable_sampling()); }; };
  const auto invalid = [sampling](const char* name, auto set, const char* field, const char* message) {
    return BadInput{name, sampling(set), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", field, message};
  };
  using S = v1::Sampling;
  return {
      invalid(
          "temperature below", [](S* s) { s->set_temperature(-1); }, "sampling.temperature",
          "sampling.temperature is -1; limit is [0, 100]"),
      invalid(
          "temperature NaN", [](S* s) { s->set_temperature(kNan); }, "sampling.temperature",
          "sampling.temperature is nan; limit is [0, 100]"),
      invalid(
          "temperature infinite", [](S* s) { s->set_temperature(kInf); }, "sampling.temperature",
          "sampling.temperature is inf; limit is [0, 100]"),
      invalid(
          "temperature subnormal", [](S* s) { s->set_temperature(1e-40F); }, "sampling.temperature",
          "sampling.temperature is 9.99995e-41; limit is [0, 100]"),
      invalid(
          "temperature above", [](S* s) { s->set_temperature(3e38F); }, "sampling.temperature",
          "sampling.temperature is 3e+38; limit is [0, 100]"),
      invalid(
          "top_p above", [](S* s) { s->set_top_p(1.5F); }, "sampling.top_p", "sampling.top_p is 1.5; limit is (0, 1]"),
      invalid(
          "top_p zero", [](S* s) { s->set_top_p(0); }, "sampling.top_p", "sampling.top_p is 0; limit is (0, 1]"),
      invalid(
          "top_p minus zero", [](S* s) { s->set_top_p(-0.0F); }, "sampling.top_p",
          "sampling.top_p is -0; limit is (0, 1]"),
      invalid(
          "min_p above", [](S* s) { s->set_min_p(2); }, "sampling.min_p", "sampling.min_p is 2; limit is [0, 1]"),
      invalid(
          "top_k negative", [](S* s) { s->set_top_k(-1); }, "sampling.top_k",
          "sampling.top_k is -1; limit is [0, 2147483647]"),
      invalid(
          "repetition_penalty zero", [](S* s) { s->set_repetition_penalty(0); }, "sampling.repetition_penalty",
          "sampling.repetition_penalty is 0; limit is (0, 10]"),
      invalid(
          "presence_penalty above", [](S* s) { s->set_presence_penalty(2.5F); }, "sampling.presence_penalty",
          "sampling.presence_penalty is 2.5; limit is [-2, 2]"),
      invalid(
          "frequency_penalty minus infinite", [](S* s) { s->set_frequency_penalty(-kInf); },
          "sampling.frequency_penalty", "sampling.frequency_penalty is -inf; limit is [-2, 2]"),
      invalid(
          "n zero", [](S* s) { s->set_n(0); }, "sampling.n", "sampling.n is 0; limit is [1, 8]"),
      invalid(
          "n negative", [](S* s) { s->set_n(-1); }, "sampling.n", "sampling.n is -1; limit is [1, 8]"),
      invalid(
          "n huge", [](S* s) { s->set_n(kIntMax); }, "sampling.n", "sampling.n is 2147483647; limit is [1, 8]"),
      invalid(
          "logit_bias of a token outside", [](S* s) { (*s->mutable_logit_bias())[kTinyVocab] = 1; },
          "sampling.logit_bias key", "sampling.logit_bias key is 902; limit is [0, 902)"),
      invalid(
          "logit_bias of a negative token", [](S* s) { (*s->mutable_logit_bias())[kIntMin] = 1; },
          "sampling.logit_bias key", "sampling.logit_bias key is -2147483648; limit is [0, 902)"),
      invalid(
          "logit_bias NaN", [](S* s) { (*s->mutable_logit_bias())[7] = kNan; }, "sampling.logit_bias[7]",
          "sampling.logit_bias[7] is nan; limit is [-100, 100]"),
      invalid(
          "logit_bias entries",
          [](S* s) {
            for (int i = 0; i < 100000; ++i) (*s->mutable_logit_bias())[i] = 1;
          },
          "sampling.logit_bias", "sampling.logit_bias has 100000 entries; limit is 1024"),
  };
}

std::vector<BadInput> StoppingCases() {
  const auto invalid = [](const char* name, auto set, const char* field, const char* message) {
    const auto spoil = [set](v1::GenerateRequest* r) { set(r->mutable_stopping()); };
    return BadInput{name, spoil, StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", field, message};
  };
  using S = v1::Stopping;
  return {
      invalid(
          "max_tokens negative", [](S* s) { s->set_max_tokens(-1); }, "stopping.max_tokens",
          "stopping.max_tokens is -1; limit is [0, 512]"),
      invalid(
          "max_tokens least", [](S* s) { s->set_max_tokens(kIntMin); }, "stopping.max_tokens",
          "stopping.max_tokens is -2147483648; limit is [0, 512]"),
      invalid(
          "max_tokens most", [](S* s) { s->set_max_tokens(kIntMax); }, "stopping.max_tokens",
          "stopping.max_tokens is 2147483647; limit is [0, 512]"),
      invalid(
          "max_tokens with the prompt", [](S* s) { s->set_max_tokens(512); }, "stopping.max_tokens",
          "stopping.max_tokens is 512 after a prompt of 2; limit is 510 (models[].max_context_tokens is 512)"),
      invalid(
          "min_tokens negative", [](S* s) { s->set_min_tokens(-1); }, "stopping.min_tokens",
          "stopping.min_tokens is -1; limit is [0, 4]"),
      invalid(
          "min_tokens over max_tokens", [](S* s) { s->set_min_tokens(5); }, "stopping.min_tokens",
          "stopping.min_tokens is 5; limit is [0, 4]"),
      invalid(
          "stop empty", [](S* s) { s->add_stop(""); }, "stopping.stop[0]",
          "stopping.stop[0] has 0 bytes; limit is 1 to 256"),
      invalid(
          "stop long",
          [](S* s) {
            s->add_stop("x");
            s->add_stop(std::string(257, 'x'));
          },
          "stopping.stop[1]", "stopping.stop[1] has 257 bytes; limit is 1 to 256"),
      invalid(
          "stop entries",
          [](S* s) {
            for (int i = 0; i < 100000; ++i) s->add_stop("x");
          },
          "stopping.stop", "stopping.stop has 100000 entries; limit is 16"),
      invalid(
          "stop_token_ids outside", [](S* s) { s->add_stop_token_ids(kTinyVocab); }, "stopping.stop_token_ids[0]",
          "stopping.stop_token_ids[0] is 902; limit is [0, 902)"),
      invalid(
          "stop_token_ids negative", [](S* s) { s->add_stop_token_ids(-1); }, "stopping.stop_token_ids[0]",
          "stopping.stop_token_ids[0] is -1; limit is [0, 902)"),
      invalid(
          "stop_token_ids entries", [](S* s) { s->mutable_stop_token_ids()->Resize(65, 1); }, "stopping.stop_token_ids",
          "stopping.stop_token_ids has 65 entries; limit is 64"),
  };
}

std::vector<BadInput> RequestCases() {
  using R = v1::GenerateRequest;
  const auto invalid = [](const char* name, auto spoil, const char* field, const char* message) {
    return BadInput{name, spoil, StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", field, message};
  };
  return {
      invalid(
          "model empty", [](R* r) { r->clear_model(); }, "model",
          "model is empty; limit is the name of a served model"),
      invalid(
          "no input", [](R* r) { r->clear_input(); }, "input", "input is empty; limit is one of text, token_ids, chat"),
      invalid(
          "text empty", [](R* r) { r->set_text(""); }, "text", "text has 0 bytes; limit is 1 to 4194304"),
      invalid(
          "token_ids empty", [](R* r) { r->mutable_token_ids(); }, "token_ids.ids",
          "token_ids.ids has 0 tokens; limit is 1 or more"),
      invalid(
          "token_ids negative", [](R* r) { r->mutable_token_ids()->add_ids(-1); }, "token_ids.ids[0]",
          "token_ids.ids[0] is -1; limit is [0, 902)"),
      invalid(
          "token_ids outside",
          [](R* r) {
            r->mutable_token_ids()->add_ids(0);
            r->mutable_token_ids()->add_ids(kIntMax);
          },
          "token_ids.ids[1]", "token_ids.ids[1] is 2147483647; limit is [0, 902)"),
      invalid(
          "token_ids over the context", [](R* r) { r->mutable_token_ids()->mutable_ids()->Resize(512, 1); },
          "token_ids.ids",
          "token_ids.ids has 512 tokens; limit is 511, one less than the context (models[].max_context_tokens)"),
      invalid(
          "text over the context", [](R* r) { r->set_text(std::string(4000, '!')); }, "text", nullptr),
      invalid(
          "request_id long", [](R* r) { r->set_request_id(std::string(129, 'r')); }, "request_id",
          "request_id has 129 bytes; limit is 0 to 128"),
      invalid(
          "request_id with a line break", [](R* r) { r->set_request_id("a\n{\"level\":"); }, "request_id",
          "request_id has bytes that are not printable ASCII; limit is 0x20 to 0x7e"),
      invalid(
          "cache_salt long", [](R* r) { r->set_cache_salt(std::string(129, 's')); }, "cache_salt",
          "cache_salt has 129 bytes; limit is 0 to 128"),
      invalid(
          "priority above", [](R* r) { r->set_priority(101); }, "priority", "priority is 101; limit is [-100, 100]"),
      invalid(
          "priority least", [](R* r) { r->set_priority(kIntMin); }, "priority",
          "priority is -2147483648; limit is [-100, 100]"),
      invalid(
          "logprobs above", [](R* r) { r->mutable_output()->set_logprobs(21); }, "output.logprobs",
          "output.logprobs is 21; limit is [0, 20]"),
      invalid(
          "logprobs negative", [](R* r) { r->mutable_output()->set_logprobs(-1); }, "output.logprobs",
          "output.logprobs is -1; limit is [0, 20]"),
      invalid(
          "prompt_logprobs above", [](R* r) { r->mutable_output()->set_prompt_logprobs(kIntMax); },
          "output.prompt_logprobs", "output.prompt_logprobs is 2147483647; limit is [0, 20]"),
      invalid(
          "stop strings without text",
          [](R* r) {
            r->mutable_stopping()->add_stop("x");
            r->mutable_output()->set_omit_text(true);
          },
          "stopping.stop", "stopping.stop needs the text that output.omit_text leaves out; limit is one of the two"),
      invalid(
          "precision outside", [](R* r) { r->mutable_execution()->set_precision(static_cast<v1::Precision>(99)); },
          "execution.precision", "execution.precision is 99; limit is [0, 7]"),
      invalid(
          "device negative", [](R* r) { r->mutable_execution()->set_device(static_cast<v1::Device>(-1)); },
          "execution.device", "execution.device is -1; limit is [0, 3]"),
      invalid(
          "attention backend outside",
          [](R* r) { r->mutable_execution()->set_attention_backend(static_cast<v1::AttentionBackend>(5)); },
          "execution.attention_backend", "execution.attention_backend is 5; limit is [0, 4]"),
      {"text to a model without tokenizer", [](R* r) { r->set_model("bare"); }, StatusCode::FAILED_PRECONDITION,
       "NO_TOKENIZER", "", "the model has no tokenizer; it takes token_ids only"},
      {"unknown model", [](R* r) { r->set_model("gpt\n5"); }, StatusCode::NOT_FOUND, "UNKNOWN_MODEL", "",
       "model \"gpt\\n5\" is not served"},
      {"a precision that is not resident", [](R* r) { r->mutable_execution()->set_precision(v1::PRECISION_FP8); },
       StatusCode::FAILED_PRECONDITION, "PROFILE_UNSUPPORTED", "", nullptr},
      {"a device that is not there", [](R* r) { r->mutable_execution()->set_device(v1::DEVICE_CUDA); },
       StatusCode::FAILED_PRECONDITION, "PROFILE_UNSUPPORTED", "",
       "device cuda is not available: this model is served on cpu (models[].device)"},
  };
}

std::vector<BadInput> ChatCases() {
  using R = v1::GenerateRequest;
  const auto invalid = [](const char* name, auto spoil, const char* field, const char* message) {
    return BadInput{name, spoil, StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", field, message};
  };
  return {
      invalid(
          "a chat without messages", [](R* r) { r->mutable_chat(); }, "chat.messages",
          "chat.messages has 0 entries; limit is 1 or more"),
      invalid(
          "an image in a chat",
          [](R* r) {
            v1::ChatMessage* message = r->mutable_chat()->add_messages();
            message->set_role("user");
            message->add_parts()->set_type("image_url");
          },
          "chat.messages[0].parts[0].type",
          "chat.messages[0].parts[0].type is \"image_url\"; limit is \"text\", or \"image\" where the model sees "
          "images"),
      {"a chat that the template refuses", [](R* r) { r->mutable_chat()->add_messages()->set_role("bird"); },
       StatusCode::INVALID_ARGUMENT, "CHAT_REFUSED", "",
       "chat is refused by the model's chat template: birds do not chat"},
      invalid(
          "a tool choice of a model whose calls are not known",
          [](R* r) {
            v1::Chat* chat = r->mutable_chat();
            chat->add_messages()->set_role("user");
            chat->set_tools_json(R"([{"type": "function", "function": {"name": "ping"}}])");
            chat->mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_REQUIRED);
          },
          "chat.tool_choice",
          "chat.tool_choice is required; limit is auto or none: the form of this model's tool calls is not known "
          "(models[].tool_parser)"),
      invalid(
          "a tool choice without tools",
          [](R* r) {
            v1::Chat* chat = r->mutable_chat();
            chat->add_messages()->set_role("user");
            chat->mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_NAMED);
            chat->mutable_tool_choice()->set_name("ping");
          },
          "chat.tool_choice", "chat.tool_choice names a tool without chat.tools_json; limit is a chat with tools"),
      {"a chat with a model without tokenizer",
       [](R* r) {
         r->set_model("bare");
         r->mutable_chat();
       },
       StatusCode::FAILED_PRECONDITION, "NO_TOKENIZER", "", "the model has no tokenizer; it takes token_ids only"},
  };
}

void ExpectRefused(const EdgeServer& edge, const BadInput& bad) {
  SCOPED_TRACE(bad.name);
  v1::GenerateRequest request = TextRequest("!\"", 4);
  bad.spoil(&request);
  const Reply reply = edge.Generate(request);
  EXPECT_EQ(reply.status.error_code(), bad.code) << reply.status.error_message();
  EXPECT_EQ(reply.details.code(), static_cast<int>(bad.code));
  EXPECT_EQ(reply.details.message(), reply.status.error_message());
  EXPECT_EQ(reply.reason(), bad.reason);
  EXPECT_EQ(reply.Get<google::rpc::ErrorInfo>().domain(), "dunlin");
  EXPECT_TRUE(reply.messages.empty());
  EXPECT_TRUE(reply.initial_metadata.empty()) << "a refusal that may be retried sends no headers of its own";
  if (bad.message != nullptr) {
    EXPECT_EQ(reply.status.error_message(), bad.message);
  }
  const auto violations = reply.Get<google::rpc::BadRequest>().field_violations();
  if (*bad.field == '\0') {
    EXPECT_TRUE(violations.empty());
  } else {
    ASSERT_EQ(violations.size(), 1);
    EXPECT_EQ(violations[0].field(), bad.field);
    EXPECT_EQ(violations[0].description(), reply.status.error_message());
  }
}

TEST(BadInput, IsRefusedWithoutAffectingAConcurrentStream) {
  EdgeServer edge;
  const v1::GenerateRequest neighbour = TextRequest("The dunlin is a small wader. ", 400);
  const std::string alone = edge.Generate(neighbour).outputs.at(0).text;
  ASSERT_GT(alone.size(), 400U);

  edge.control().step_us = 500;
  Reply beside;
  std::thread stream([&] { beside = edge.Generate(neighbour); });
  std::vector<BadInput> cases = SamplingCases();
  for (const auto& more : {StoppingCases(), RequestCases(), ChatCases()})
    cases.insert(cases.end(), more.begin(), more.end());
  EXPECT_GE(cases.size(), 40U);
  for (const BadInput& bad : cases) ExpectRefused(edge, bad);
  stream.join();
  EXPECT_TRUE(beside.status.ok()) << beside.status.error_message();
  EXPECT_EQ(beside.outputs.at(0).text, alone);
  EXPECT_EQ(edge.Generate(neighbour).outputs.at(0).text, alone);

  const std::vector<RequestRecord> records = edge.observer().WaitFor(cases.size() + 3);
  EXPECT_EQ(records.size(), cases.size() + 3);
  for (const RequestRecord& record : records) EXPECT_EQ(record.refusal_reason.empty(), record.status.ok());
}

TEST(BadInput, UnknownModelAndRefusedProfileCarryTheirOwnDetails) {
  EdgeServer edge;
  v1::GenerateRequest request = TextRequest("ab", 2);
  request.set_model("missing");
  EXPECT_EQ(edge.Generate(request).Get<google::rpc::ResourceInfo>().resource_name(), "missing");

  request.set_model("tiny");
  request.mutable_execution()->set_precision(v1::PRECISION_FP8);
  const auto failure = edge.Generate(request).Get<google::rpc::PreconditionFailure>();
  ASSERT_GE(failure.violations_size(), 3);  // one for each backend
  EXPECT_THAT(failure.violations(0).description(), testing::HasSubstr("fp8 is not resident"));
  request.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_MATH);
  const auto named = edge.Generate(request).Get<google::rpc::PreconditionFailure>();
  ASSERT_GE(named.violations_size(), 1);
  EXPECT_THAT(named.violations(0).description(), testing::StartsWith("math: "));
}

TEST(BadInput, RequestIdInMetadataIsBoundedToo) {
  EdgeServer edge;
  const auto setup = [](grpc::ClientContext* context) { context->AddMetadata("x-request-id", std::string(200, 'x')); };
  const Reply reply = edge.Generate(TextRequest("ab", 2), setup);
  EXPECT_EQ(reply.status.error_message(), "request_id has 200 bytes; limit is 0 to 128");
}

}  // namespace
}  // namespace dunlin::server
