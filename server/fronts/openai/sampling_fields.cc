// SPDX-License-Identifier: Apache-2.0
// Sampling, stopping, output and execution: the fields that all generating routes share.
#include <string>

#include "absl/strings/numbers.h"
#include "server/fronts/openai/generation_body.h"
#include "server/json/draw_param_rows.h"
#include "server/json/execution_fields.h"

namespace dunlin::server {
namespace {

using V = JsonValue;
using B = GenerationBody;

void ReadLogitBias(const V& value, B* body) {
  if (!value.ExpectObject()) return;
  for (const auto& member : value.json().items()) {
    const V bias = value.At(member.key());
    engine::TokenId id = 0;
    if (!absl::SimpleAtoi(member.key(), &id)) return bias.Fail("has a key that is not a token id", "a decimal integer");
    body->request->sampling.logit_bias.emplace_back(id, bias.Number());
  }
}

void ReadBadWordsIds(const V& value, B* body) {
  if (!value.ExpectArray()) return;
  for (size_t i = 0; i < value.size() && value.ok(); ++i) {
    body->request->sampling.bad_words_ids.push_back(value.At(i).TokenIds());
  }
}

engine::DrawParamOverrides* DrawParamsOf(B* body) {
  return &body->request->sampling;
}

// Besides the numeric parameters.
constexpr GenerationRow kFurtherSampling[] = {
    Honoured<B>("seed", [](const V& v, B* b) { b->request->sampling.seed = v.Unsigned64(); }),
    Honoured<B>("logit_bias", ReadLogitBias),
    Honoured<B>("allowed_token_ids", [](const V& v, B* b) { b->request->sampling.allowed_token_ids = v.TokenIds(); }),
    Honoured<B>("bad_words", [](const V& v, B* b) { b->request->sampling.bad_words = v.Texts(); }),
    Honoured<B>("bad_words_ids", ReadBadWordsIds),
    Honoured<B>("ignore_model_bans", [](const V& v, B* b) { b->request->sampling.ignore_model_bans = v.Bool(); }),
    Honoured<B>("min_tokens", [](const V& v, B* b) { b->request->stopping.min_tokens = v.Int(); }),
    Honoured<B>("stop_token_ids", [](const V& v, B* b) { b->request->stopping.stop_token_ids = v.TokenIds(); }),
    Honoured<B>("ignore_eos", [](const V& v, B* b) { b->request->stopping.ignore_eos = v.Bool(); }),
    Honoured<B>("include_stop_str_in_output", [](const V& v, B* b) { b->request->stopping.include_stop = v.Bool(); }),
    Honoured<B>("skip_special_tokens", [](const V& v, B* b) { b->request->output.keep_special_tokens = !v.Bool(); }),
    Honoured<B>("truncate_prompt_tokens", [](const V& v, B* b) { b->request->truncate_prompt_tokens = v.Int(); }),
    Refused<B>("spaces_between_special_tokens", "the tokenizer decides", "true"),
    Refused<B>("use_beam_search", "outputs are sampled, each by itself", "false"),
    Refused<B>("length_penalty", "outputs are sampled, each by itself", "1"),
};

constexpr auto kSampling = Joined(DrawParamRows<B, V, DrawParamsOf>(), kFurtherSampling);

constexpr GenerationRow kServing[] = {
    Honoured<B>("model", [](const V& v, B* b) { b->request->model = v.Text(); }),
    Honoured<B>("device", [](const V& v, B* b) { ReadDevice(v, &b->request->execution); }),
    Honoured<B>("attention_backend", [](const V& v, B* b) { ReadAttentionBackend(v, &b->request->execution); }),
    Honoured<B>("precision", [](const V& v, B* b) { ReadPrecision(v, &b->request->execution); }),
    Honoured<B>("allow_fallback", [](const V& v, B* b) { b->request->execution.allow_fallback = v.Bool(); }),
    Honoured<B>("speculation", [](const V& v, B* b) { ReadSpeculation(v, &b->request->execution); }),
    Honoured<B>("priority", [](const V& v, B* b) { b->request->priority = v.Int(); }),
    Honoured<B>("cache_salt", [](const V& v, B* b) { b->request->cache_salt = v.Text(); }),
    Honoured<B>("request_id", [](const V& v, B* b) { b->request->request_id = v.Text(); }),
};

constexpr GenerationRow kStreamOptions[] = {
    Honoured<B>("include_usage", [](const V& v, B* b) { b->include_usage = v.Bool(); }),
    Honoured<B>("continuous_usage_stats", [](const V& v, B* b) { b->continuous_usage = v.Bool(); }),
    Ignored<B>("include_obfuscation"),
};

constexpr GenerationRow kStream[] = {
    Honoured<B>("stream", [](const V& v, B* b) { b->stream = v.Bool(); }),
    Honoured<B>("stream_options", [](const V& v, B* b) { ReadFields(v, GenerationTable(kStreamOptions), b); }),
};

}  // namespace

const GenerationTable kSamplingFields(kSampling);
const GenerationTable kServingFields(kServing);
const GenerationTable kStreamFields(kStream);

}  // namespace dunlin::server
