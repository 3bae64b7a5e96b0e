// SPDX-License-Identifier: Apache-2.0
// The names of request fields in vllm.GenerateRequest, as paths in the proto. Fields with the same name in the core are
// omitted.
#pragma once

#include "server/serving/record/client_field.h"

namespace dunlin::server {

inline constexpr FieldNames kVllmFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPromptText, "text"},
      {kPromptTokens, "token_ids.ids"},
      {kPromptToken, "token_ids.ids[*]"},
      {kCacheSalt, "kv.cache_salt"},
      {kNumOutputs, "sampling.num_sequences"},
      {kTopK, "sampling.top_k"},
      {kTopP, "sampling.top_p"},
      {kMinP, "sampling.min_p"},
      {kRepetitionPenalty, "decoding.repetition_penalty"},
      {kPresencePenalty, "decoding.presence_penalty"},
      {kFrequencyPenalty, "decoding.frequency_penalty"},
      {kLogitBias, "decoding.logit_bias"},
      {kLogitBiasToken, "decoding.logit_bias key"},
      {kLogitBiasValue, "decoding.logit_bias[*]"},
      {kAllowedTokenIds, "decoding.allowed_token_ids"},
      {kAllowedTokenId, "decoding.allowed_token_ids[*]"},
      {kBadWordsIds, "decoding.bad_words_token_ids"},
      {kBadWordIds, "decoding.bad_words_token_ids[*].ids"},
      {kBadWordId, "decoding.bad_words_token_ids[*].ids[*]"},
      {kMaxTokens, "stopping.max_new_tokens"},
      {kMinTokens, "stopping.min_new_tokens"},
      {kStopStrings, "stopping.stop_strings"},
      {kStopString, "stopping.stop_strings[*]"},
      {kStopTokenIds, "stopping.stop_token_ids"},
      {kStopTokenId, "stopping.stop_token_ids[*]"},
      {kLogprobs, "response.output_candidates.top_n"},
      {kPromptLogprobs, "response.prompt_candidates.top_n"},
      {kJsonSchema, "decoding.json"},
      {kJsonObject, "decoding.json_object"},
      {kRegex, "decoding.regex"},
      {kChoices, "decoding.choice.choices"},
      {kChoice, "decoding.choice.choices[*]"},
      {kGrammar, "decoding.grammar"},
  });
}();

}  // namespace dunlin::server
