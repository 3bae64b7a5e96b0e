// SPDX-License-Identifier: Apache-2.0
// The names of request fields in vllm.GenerateRequest, as paths in the proto. Fields with the same name in the core are
// omitted.
#pragma once

#include "engine/request/request_field.h"

namespace dunlin::server {

inline constexpr engine::FieldNames kVllmFieldNames({
    {engine::RequestField::kPromptText, "text"},
    {engine::RequestField::kPromptTokens, "token_ids.ids"},
    {engine::RequestField::kPromptToken, "token_ids.ids[*]"},
    {engine::RequestField::kCacheSalt, "kv.cache_salt"},
    {engine::RequestField::kNumOutputs, "sampling.num_sequences"},
    {engine::RequestField::kTopK, "sampling.top_k"},
    {engine::RequestField::kTopP, "sampling.top_p"},
    {engine::RequestField::kMinP, "sampling.min_p"},
    {engine::RequestField::kRepetitionPenalty, "decoding.repetition_penalty"},
    {engine::RequestField::kPresencePenalty, "decoding.presence_penalty"},
    {engine::RequestField::kFrequencyPenalty, "decoding.frequency_penalty"},
    {engine::RequestField::kLogitBias, "decoding.logit_bias"},
    {engine::RequestField::kLogitBiasToken, "decoding.logit_bias key"},
    {engine::RequestField::kLogitBiasValue, "decoding.logit_bias[*]"},
    {engine::RequestField::kAllowedTokenIds, "decoding.allowed_token_ids"},
    {engine::RequestField::kAllowedTokenId, "decoding.allowed_token_ids[*]"},
    {engine::RequestField::kBadWordsIds, "decoding.bad_words_token_ids"},
    {engine::RequestField::kBadWordIds, "decoding.bad_words_token_ids[*].ids"},
    {engine::RequestField::kBadWordId, "decoding.bad_words_token_ids[*].ids[*]"},
    {engine::RequestField::kMaxTokens, "stopping.max_new_tokens"},
    {engine::RequestField::kMinTokens, "stopping.min_new_tokens"},
    {engine::RequestField::kStopStrings, "stopping.stop_strings"},
    {engine::RequestField::kStopString, "stopping.stop_strings[*]"},
    {engine::RequestField::kStopTokenIds, "stopping.stop_token_ids"},
    {engine::RequestField::kStopTokenId, "stopping.stop_token_ids[*]"},
    {engine::RequestField::kLogprobs, "response.output_candidates.top_n"},
    {engine::RequestField::kPromptLogprobs, "response.prompt_candidates.top_n"},
    {engine::RequestField::kJsonSchema, "decoding.json"},
    {engine::RequestField::kJsonObject, "decoding.json_object"},
    {engine::RequestField::kRegex, "decoding.regex"},
    {engine::RequestField::kChoices, "decoding.choice.choices"},
    {engine::RequestField::kChoice, "decoding.choice.choices[*]"},
    {engine::RequestField::kGrammar, "decoding.grammar"},
});

}  // namespace dunlin::server
