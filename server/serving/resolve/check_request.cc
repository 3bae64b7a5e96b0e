// SPDX-License-Identifier: Apache-2.0
#include "server/serving/resolve/check_request.h"

#include "absl/strings/str_cat.h"
#include "engine/loop/validate.h"
#include "engine/request/field_checks.h"
#include "server/serving/record/client_field.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace dunlin::server {
namespace {

using engine::CheckBytes;
using engine::Violation;
using C = ClientField;
using F = engine::RequestField;

constexpr int64_t kVectorOverheadBytes = 32;  // upper bound, per vector in a response besides its values
constexpr const char* kInputKinds = "one of text, token_ids";
constexpr const char* kPromptKinds = "one of text, token_ids, chat";

std::optional<Violation> CheckStopStrings(const ClientRequest& request) {
  const std::vector<std::string>& stops = request.stopping.stop;
  if (auto v = engine::CheckCount(C::kStopStrings, stops.size(), text::kMaxStopStrings)) return v;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (auto v = CheckBytes(C::kStopString, stops[i].size(), 1, text::kMaxStopStringBytes, {static_cast<int64_t>(i)}))
      return v;
  }
  if (stops.empty() || !request.output.omit_text) return std::nullopt;
  return Violation::Against(C::kOmitText, C::kStopStrings, "needs the text that * leaves out", "one of the two");
}

std::optional<Violation> CheckBadWordTexts(const std::vector<std::string>& words) {
  if (auto v = engine::CheckCount(C::kBadWords, words.size(), kMaxBadWordTexts)) return v;
  for (size_t i = 0; i < words.size(); ++i) {
    if (auto v = CheckBytes(C::kBadWord, words[i].size(), 1, kMaxBadWordBytes, {static_cast<int64_t>(i)})) return v;
  }
  return std::nullopt;
}

// The model decides whether it calls a tool, and how many; nothing can make it.
std::optional<Violation> CheckEmbedInput(const ClientEmbedInput& input, int64_t index) {
  if (const auto* text = std::get_if<std::string>(&input)) {
    return CheckBytes(C::kInputText, text->size(), 0, text::kMaxTextBytes, {index});
  }
  if (const auto* ids = std::get_if<std::vector<engine::TokenId>>(&input)) {
    if (!ids->empty()) return std::nullopt;
    return Violation::Of(C::kInputTokens, "has 0 tokens", "1 or more", {index});
  }
  return Violation::Of(F::kInput, "is empty", kInputKinds, {index});
}

std::optional<Violation> CheckEmbedInputs(const ClientEmbedRequest& request, const Limits& limits) {
  const auto count = static_cast<int64_t>(request.inputs.size());
  if (count < 1 || count > limits.max_embedding_inputs) {
    return Violation::Of(F::kInputs, absl::StrCat("has ", count, " entries"),
                         absl::StrCat("1 to ", limits.max_embedding_inputs, " (limits.max_embedding_inputs)"));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (auto v = CheckEmbedInput(request.inputs[static_cast<size_t>(i)], i)) return v;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> CheckRequestId(std::string_view request_id) {
  return engine::CheckPrintable(C::kRequestId, request_id, kMaxRequestIdBytes);
}

std::optional<Violation> CheckGenerateFields(const ClientRequest& request) {
  if (auto v = engine::CheckInt(C::kNumOutputs, request.num_outputs, 1, engine::kMaxOutputsPerRequest)) return v;
  if (request.output.logprobs.has_value()) {
    if (auto v = engine::CheckTopLogprobs(F::kLogprobs, *request.output.logprobs)) return v;
  }
  if (request.output.prompt_logprobs.has_value()) {
    if (auto v = engine::CheckTopLogprobs(F::kPromptLogprobs, *request.output.prompt_logprobs)) return v;
  }
  if (request.output.echo && request.output.omit_text) {
    return Violation::Against(C::kOmitText, C::kEcho, "needs the text that * leaves out", "one of the two");
  }
  if (auto v = CheckBadWordTexts(request.sampling.bad_words)) return v;
  return CheckStopStrings(request);
}

std::optional<Violation> CheckPromptForm(const ClientPrompt& prompt) {
  if (std::holds_alternative<std::monostate>(prompt)) {
    return Violation::Of(C::kPrompt, "is empty", kPromptKinds);
  }
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    return CheckBytes(C::kPromptText, text->size(), 1, text::kMaxTextBytes);
  }
  return std::nullopt;
}

std::optional<Violation> CheckRerankFields(const ClientEmbedRequest& request, const Limits& limits) {
  if (auto v = CheckBytes(C::kQuery, request.rerank->query.size(), 1, text::kMaxTextBytes)) return v;
  if (auto v = CheckEmbedInputs(request, limits)) return v;
  if (!request.rerank->top_n.has_value()) return std::nullopt;
  return engine::CheckInt(C::kTopN, *request.rerank->top_n, 1, INT32_MAX);
}

std::optional<Violation> CheckEmbedFields(const ClientEmbedRequest& request, int32_t dimensions,
                                          const engine::EncodeLimits& encoder, const Limits& limits) {
  if (auto v = CheckEmbedInputs(request, limits)) return v;
  const auto count = static_cast<int64_t>(request.inputs.size());
  if (auto v = engine::CheckDimensions(dimensions, encoder)) return v;
  const int64_t bytes = count * (int64_t{dimensions} * 4 + kVectorOverheadBytes);
  if (bytes <= limits.max_message_bytes) return std::nullopt;
  return Violation::Of(F::kInputs, absl::StrCat("has ", count, " entries, whose vectors take ", bytes, " bytes"),
                       absl::StrCat(limits.max_message_bytes, " (limits.max_message_bytes)"));
}

}  // namespace dunlin::server
