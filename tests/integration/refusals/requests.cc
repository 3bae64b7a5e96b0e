// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/refusals/requests.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "dunlin/v1/embedding.pb.h"
#include "dunlin/v1/generation.pb.h"
#include "dunlin/v1/model.pb.h"
#include "dunlin/v1/tokenizer.pb.h"

namespace dunlin::integration {
namespace {

template <class Message>
Sent FromText(const char* method, const char* base, const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(base, &message)) << base;
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &message)) << text.substr(0, 200);
  return {.method = method, .message = message.SerializeAsString()};
}

}  // namespace

Sent Generate(const std::string& text) {
  return FromText<v1::GenerateRequest>(kGenerateMethod, R"(model: "demo" text: "ab" stopping { max_tokens: 4 })", text);
}

Sent Constrained(const std::string& kind, const std::string& grammar) {
  return Generate(absl::StrCat("structured_output { ", kind, ": \"", absl::CEscape(grammar), "\" }"));
}

Sent Chat(const std::string& text) {
  return FromText<v1::GenerateRequest>(kGenerateMethod, R"(model: "chat" stopping { max_tokens: 4 } chat {})", text);
}

Sent ChatWithOptions(const std::string& options_json) {
  return Chat(
      absl::StrCat("chat { messages { role: \"user\" content: \"hi\" } template_options_json: '", options_json, "' }"));
}

Sent Embed(const std::string& text) {
  return FromText<v1::EmbedRequest>(kEmbedMethod, R"(model: "encoder" inputs { text: "x" })", text);
}

Sent Tokenize(const std::string& text) {
  return FromText<v1::TokenizeRequest>(kTokenizeMethod, "", text);
}

Sent Detokenize(const std::string& text) {
  return FromText<v1::DetokenizeRequest>(kDetokenizeMethod, "", text);
}

Sent ApplyChatTemplate(const std::string& text) {
  return FromText<v1::ApplyChatTemplateRequest>(kApplyChatTemplateMethod, "", text);
}

Sent GetModel(const std::string& text) {
  return FromText<v1::GetModelRequest>(kGetModelMethod, "", text);
}

Sent GenerateSlowly(int max_tokens, const std::string& text) {
  return Generate(absl::StrCat("model: \"", kSlowModel, "\" token_ids { ids: [1, 2, 3] } stopping { max_tokens: ",
                               max_tokens, " ignore_eos: true } ", text));
}

Sent Bytes(const char* method, std::string message) {
  return {.method = method, .message = std::move(message)};
}

Sent WithSteps(Sent sent, std::vector<Step> steps) {
  sent.steps = std::move(steps);
  return sent;
}

Sent WithHeld(Sent sent, std::vector<const char*> held) {
  sent.held = std::move(held);
  return sent;
}

Sent WithMetadata(Sent sent, std::vector<std::pair<std::string, std::string>> metadata) {
  sent.metadata = std::move(metadata);
  return sent;
}

Sent WithDeadline(Sent sent, std::chrono::nanoseconds deadline) {
  sent.deadline = deadline;
  return sent;
}

std::string Times(int count, const std::string& text) {
  std::string all;
  all.reserve(text.size() * static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) all.append(text);
  return all;
}

Answer Invalid(std::string field, const std::string& rest) {
  return BadGrammar("INVALID_FIELD", std::move(field), rest);
}

Answer BadGrammar(std::string reason, std::string field, const std::string& rest) {
  std::string message = absl::StrCat(field, " ", rest);
  return {.code = grpc::StatusCode::INVALID_ARGUMENT,
          .message = std::move(message),
          .reason = std::move(reason),
          .field = std::move(field)};
}

Answer Refused(grpc::StatusCode code, std::string reason, std::string message) {
  return {.code = code, .message = std::move(message), .reason = std::move(reason)};
}

Answer Overloaded(std::string reason, std::string config_key, std::string message) {
  return {.code = grpc::StatusCode::RESOURCE_EXHAUSTED,
          .message = std::move(message),
          .reason = std::move(reason),
          .config_key = std::move(config_key)};
}

Answer UnknownModel(std::string name, std::string message) {
  return {.code = grpc::StatusCode::NOT_FOUND,
          .message = std::move(message),
          .reason = "UNKNOWN_MODEL",
          .resource = std::move(name)};
}

Answer ProfileRefused(int num_preconditions, std::string message) {
  return {.code = grpc::StatusCode::FAILED_PRECONDITION,
          .message = std::move(message),
          .reason = "PROFILE_UNSUPPORTED",
          .num_preconditions = num_preconditions};
}

Answer OfGrpc(grpc::StatusCode code, std::string message) {
  return {.code = code, .message = std::move(message), .reason = ""};
}

Answer Ok() {
  return OfGrpc(grpc::StatusCode::OK, "");
}

}  // namespace dunlin::integration
