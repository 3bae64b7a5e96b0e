// SPDX-License-Identifier: Apache-2.0
// The names of request fields in the messages of dunlin.v1, as paths in the proto. Fields with the same name in the
// core are omitted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "engine/request/draw_params.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {

// "sampling.top_p": where GenerateRequest has a numeric parameter.
struct DrawParamPath {
  engine::RequestField field = {};
  std::array<char, 40> text = {};
};
inline constexpr auto kDrawParamPaths = [] {
  std::array<DrawParamPath, engine::kNumDrawParams> paths;
  for (size_t i = 0; i < paths.size(); ++i) {
    paths[i].field = engine::kDrawParamTable[i].field;
    char* end = paths[i].text.data();
    for (const std::string_view part :
         {std::string_view("sampling."), std::string_view(engine::kDrawParamTable[i].name())}) {
      end = std::copy(part.begin(), part.end(), end);
    }
  }
  return paths;
}();

inline constexpr FieldNames kGenerateFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  FieldNames names({
      {kPrompt, "input"},
      {kPromptText, "text"},
      {kPromptTokens, "token_ids.ids"},
      {kPromptToken, "token_ids.ids[*]"},
      {kNumOutputs, "sampling.n"},
      {kLogitBias, "sampling.logit_bias"},
      {kLogitBiasToken, "sampling.logit_bias key"},
      {kLogitBiasValue, "sampling.logit_bias[*]"},
      {kAllowedTokenIds, "sampling.allowed_token_ids"},
      {kAllowedTokenId, "sampling.allowed_token_ids[*]"},
      {kBadWordsIds, "sampling.bad_words_ids"},
      {kBadWordIds, "sampling.bad_words_ids[*].ids"},
      {kBadWordId, "sampling.bad_words_ids[*].ids[*]"},
      {kBadWords, "sampling.bad_words"},
      {kBadWord, "sampling.bad_words[*]"},
      {kMaxTokens, "stopping.max_tokens"},
      {kMinTokens, "stopping.min_tokens"},
      {kStopStrings, "stopping.stop"},
      {kStopString, "stopping.stop[*]"},
      {kStopTokenIds, "stopping.stop_token_ids"},
      {kStopTokenId, "stopping.stop_token_ids[*]"},
      {kLogprobs, "output.logprobs"},
      {kPromptLogprobs, "output.prompt_logprobs"},
      {kOmitText, "output.omit_text"},
      {kEcho, "output.echo"},
      {kDevice, "execution.device"},
      {kAttentionBackend, "execution.attention_backend"},
      {kSpeculation, "execution.speculation"},
      {kPrecision, "execution.precision"},
      {kChatMessages, "chat.messages"},
      {kChatMessage, "chat.messages[*]"},
      {kChatRole, "chat.messages[*].role"},
      {kChatContent, "chat.messages[*].content"},
      {kChatParts, "chat.messages[*].parts"},
      {kChatPartType, "chat.messages[*].parts[*].type"},
      {kChatPartText, "chat.messages[*].parts[*].text"},
      {kChatPartImage, "chat.messages[*].parts[*].image"},
      {kChatImages, "chat.messages[*].parts"},
      {kChatToolCalls, "chat.messages[*].tool_calls"},
      {kChatToolCallName, "chat.messages[*].tool_calls[*].name"},
      {kChatToolCallArguments, "chat.messages[*].tool_calls[*].arguments_json"},
      {kChatExtraFields, "chat.messages[*].extra_fields_json"},
      {kChatTools, "chat.tools_json"},
      {kChatTemplateOptions, "chat.template_options_json"},
      {kChatAddGenerationPrompt, "chat.add_generation_prompt"},
      {kChatContinueFinalMessage, "chat.continue_final_message"},
      {kChatParseSpecialTokens, "chat.parse_special_tokens"},
      {kToolChoice, "chat.tool_choice"},
      {kToolChoiceName, "chat.tool_choice.name"},
      {kParallelToolCalls, "chat.parallel_tool_calls"},
      {kRawChatOutput, "output.raw_chat_output"},
      {kJsonSchema, "structured_output.json_schema"},
      {kJsonObject, "structured_output.json_object"},
      {kRegex, "structured_output.regex"},
      {kChoices, "structured_output.choice.texts"},
      {kChoice, "structured_output.choice.texts[*]"},
      {kGrammar, "structured_output.grammar"},
  });
  for (const DrawParamPath& path : kDrawParamPaths) names.Set({path.field, path.text.data()});
  return names;
}();

inline constexpr FieldNames kEmbedFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kInputText, "inputs[*].text"},
      {kInputTokens, "inputs[*].token_ids.ids"},
      {kInputToken, "inputs[*].token_ids.ids[*]"},
      {kDevice, "execution.device"},
      {kAttentionBackend, "execution.attention_backend"},
      {kSpeculation, "execution.speculation"},
      {kPrecision, "execution.precision"},
  });
}();

inline constexpr FieldNames kRerankFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kInputs, "documents"},
      {kInput, "documents[*]"},
      {kInputText, "documents[*]"},
      {kDevice, "execution.device"},
      {kAttentionBackend, "execution.attention_backend"},
      {kSpeculation, "execution.speculation"},
      {kPrecision, "execution.precision"},
  });
}();

inline constexpr FieldNames kTokenizerFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPromptText, "text"},
      {kPromptTokens, "token_ids"},
      {kPromptToken, "token_ids[*]"},
  });
}();

}  // namespace dunlin::server
