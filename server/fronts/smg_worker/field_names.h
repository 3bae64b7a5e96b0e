// SPDX-License-Identifier: Apache-2.0
// The names of GenerateRequest's and EmbedRequest's fields, for errors.
#pragma once

#include "engine/request/request_field.h"

namespace dunlin::server {

inline constexpr engine::FieldNames kVllmEngineFieldNames({
    {engine::RequestField::kPrompt, "input"},
    {engine::RequestField::kPromptText, "text"},
    {engine::RequestField::kPromptTokens, "tokenized.input_ids"},
    {engine::RequestField::kPromptToken, "tokenized.input_ids[*]"},
    {engine::RequestField::kTruncatePromptTokens, "sampling_params.truncate_prompt_tokens"},
    {engine::RequestField::kNumOutputs, "sampling_params.n"},
    {engine::RequestField::kTemperature, "sampling_params.temperature"},
    {engine::RequestField::kTopK, "sampling_params.top_k"},
    {engine::RequestField::kTopP, "sampling_params.top_p"},
    {engine::RequestField::kMinP, "sampling_params.min_p"},
    {engine::RequestField::kRepetitionPenalty, "sampling_params.repetition_penalty"},
    {engine::RequestField::kPresencePenalty, "sampling_params.presence_penalty"},
    {engine::RequestField::kFrequencyPenalty, "sampling_params.frequency_penalty"},
    {engine::RequestField::kLogitBias, "sampling_params.logit_bias"},
    {engine::RequestField::kLogitBiasToken, "sampling_params.logit_bias key"},
    {engine::RequestField::kLogitBiasValue, "sampling_params.logit_bias[*]"},
    {engine::RequestField::kMaxTokens, "sampling_params.max_tokens"},
    {engine::RequestField::kMinTokens, "sampling_params.min_tokens"},
    {engine::RequestField::kStopStrings, "sampling_params.stop"},
    {engine::RequestField::kStopString, "sampling_params.stop[*]"},
    {engine::RequestField::kStopTokenIds, "sampling_params.stop_token_ids"},
    {engine::RequestField::kStopTokenId, "sampling_params.stop_token_ids[*]"},
    {engine::RequestField::kLogprobs, "sampling_params.logprobs"},
    {engine::RequestField::kPromptLogprobs, "sampling_params.prompt_logprobs"},
    {engine::RequestField::kInput, "tokenized"},
    {engine::RequestField::kInputText, "tokenized.original_text"},
    {engine::RequestField::kInputTokens, "tokenized.input_ids"},
    {engine::RequestField::kInputToken, "tokenized.input_ids[*][*]"},
    {engine::RequestField::kJsonSchema, "sampling_params.json_schema"},
    {engine::RequestField::kJsonObject, "sampling_params.json_object"},
    {engine::RequestField::kRegex, "sampling_params.regex"},
    {engine::RequestField::kChoices, "sampling_params.choice.choices"},
    {engine::RequestField::kChoice, "sampling_params.choice.choices[*]"},
    {engine::RequestField::kGrammar, "sampling_params.grammar"},
});

}  // namespace dunlin::server
