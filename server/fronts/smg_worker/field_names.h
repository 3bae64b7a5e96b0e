// SPDX-License-Identifier: Apache-2.0
// The names of GenerateRequest's and EmbedRequest's fields, for errors.
#pragma once

#include "server/serving/record/client_field.h"

namespace dunlin::server {

inline constexpr FieldNames kVllmEngineFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPrompt, "input"},
      {kPromptText, "text"},
      {kPromptTokens, "tokenized.input_ids"},
      {kPromptToken, "tokenized.input_ids[*]"},
      {kTruncatePromptTokens, "sampling_params.truncate_prompt_tokens"},
      {kNumOutputs, "sampling_params.n"},
      {kTemperature, "sampling_params.temperature"},
      {kTopK, "sampling_params.top_k"},
      {kTopP, "sampling_params.top_p"},
      {kMinP, "sampling_params.min_p"},
      {kRepetitionPenalty, "sampling_params.repetition_penalty"},
      {kPresencePenalty, "sampling_params.presence_penalty"},
      {kFrequencyPenalty, "sampling_params.frequency_penalty"},
      {kLogitBias, "sampling_params.logit_bias"},
      {kLogitBiasToken, "sampling_params.logit_bias key"},
      {kLogitBiasValue, "sampling_params.logit_bias[*]"},
      {kMaxTokens, "sampling_params.max_tokens"},
      {kMinTokens, "sampling_params.min_tokens"},
      {kStopStrings, "sampling_params.stop"},
      {kStopString, "sampling_params.stop[*]"},
      {kStopTokenIds, "sampling_params.stop_token_ids"},
      {kStopTokenId, "sampling_params.stop_token_ids[*]"},
      {kLogprobs, "sampling_params.logprobs"},
      {kPromptLogprobs, "sampling_params.prompt_logprobs"},
      {kInput, "tokenized"},
      {kInputText, "tokenized.original_text"},
      {kInputTokens, "tokenized.input_ids"},
      {kInputToken, "tokenized.input_ids[*][*]"},
      {kJsonSchema, "sampling_params.json_schema"},
      {kJsonObject, "sampling_params.json_object"},
      {kRegex, "sampling_params.regex"},
      {kChoices, "sampling_params.choice.choices"},
      {kChoice, "sampling_params.choice.choices[*]"},
      {kGrammar, "sampling_params.grammar"},
  });
}();

}  // namespace dunlin::server
