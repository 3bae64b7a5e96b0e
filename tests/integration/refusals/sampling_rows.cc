// SPDX-License-Identifier: Apache-2.0
// Sampling: ranges, NaN and infinities, token ids, counts.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

Sent Sampling(const std::string& text) {
  return Generate(absl::StrCat("sampling { ", text, " }"));
}

std::string LogitBiases(int count) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, "logit_bias { key: ", i, " value: 1 } ");
  return all;
}

}  // namespace

Group SamplingRows() {
  return {"Sampling",
          kAttackConfig,
          {
              {"temperature below", Sampling("temperature: -1"),
               Invalid("sampling.temperature", "is -1; limit is [0, 100]")},
              {"temperature above", Sampling("temperature: 3e38"),
               Invalid("sampling.temperature", "is 3e+38; limit is [0, 100]")},
              {"temperature NaN", Sampling("temperature: nan"),
               Invalid("sampling.temperature", "is nan; limit is [0, 100]")},
              {"temperature infinite", Sampling("temperature: inf"),
               Invalid("sampling.temperature", "is inf; limit is [0, 100]")},
              {"temperature minus infinite", Sampling("temperature: -inf"),
               Invalid("sampling.temperature", "is -inf; limit is [0, 100]")},
              {"temperature subnormal", Sampling("temperature: 1e-40"),
               Invalid("sampling.temperature", "is 9.99995e-41; limit is [0, 100]")},
              {"top_p above", Sampling("top_p: 1.5"), Invalid("sampling.top_p", "is 1.5; limit is (0, 1]")},
              {"top_p zero", Sampling("top_p: 0"), Invalid("sampling.top_p", "is 0; limit is (0, 1]")},
              {"top_p minus zero", Sampling("top_p: -0.0"), Invalid("sampling.top_p", "is -0; limit is (0, 1]")},
              {"top_p NaN", Sampling("top_p: nan"), Invalid("sampling.top_p", "is nan; limit is (0, 1]")},
              {"min_p above", Sampling("min_p: 2"), Invalid("sampling.min_p", "is 2; limit is [0, 1]")},
              {"min_p negative", Sampling("min_p: -0.5"), Invalid("sampling.min_p", "is -0.5; limit is [0, 1]")},
              {"min_p NaN", Sampling("min_p: nan"), Invalid("sampling.min_p", "is nan; limit is [0, 1]")},
              {"top_k negative", Sampling("top_k: -1"), Invalid("sampling.top_k", "is -1; limit is [0, 2147483647]")},
              {"top_k least", Sampling("top_k: -2147483648"),
               Invalid("sampling.top_k", "is -2147483648; limit is [0, 2147483647]")},
              {"repetition_penalty zero", Sampling("repetition_penalty: 0"),
               Invalid("sampling.repetition_penalty", "is 0; limit is (0, 10]")},
              {"repetition_penalty above", Sampling("repetition_penalty: 10.5"),
               Invalid("sampling.repetition_penalty", "is 10.5; limit is (0, 10]")},
              {"repetition_penalty NaN", Sampling("repetition_penalty: nan"),
               Invalid("sampling.repetition_penalty", "is nan; limit is (0, 10]")},
              {"presence_penalty above", Sampling("presence_penalty: 2.5"),
               Invalid("sampling.presence_penalty", "is 2.5; limit is [-2, 2]")},
              {"presence_penalty below", Sampling("presence_penalty: -2.5"),
               Invalid("sampling.presence_penalty", "is -2.5; limit is [-2, 2]")},
              {"frequency_penalty minus infinite", Sampling("frequency_penalty: -inf"),
               Invalid("sampling.frequency_penalty", "is -inf; limit is [-2, 2]")},
              {"frequency_penalty above", Sampling("frequency_penalty: 1e30"),
               Invalid("sampling.frequency_penalty", "is 1e+30; limit is [-2, 2]")},
              {"n zero", Sampling("n: 0"), Invalid("sampling.n", "is 0; limit is [1, 8]")},
              {"n negative", Sampling("n: -1"), Invalid("sampling.n", "is -1; limit is [1, 8]")},
              {"n one too many", Sampling("n: 9"), Invalid("sampling.n", "is 9; limit is [1, 8]")},
              {"n huge", Sampling("n: 2147483647"), Invalid("sampling.n", "is 2147483647; limit is [1, 8]")},
              {"n least", Sampling("n: -2147483648"), Invalid("sampling.n", "is -2147483648; limit is [1, 8]")},
              {"all extremes that are allowed",
               Sampling("temperature: 100 top_k: 2147483647 top_p: 1 min_p: 1 repetition_penalty: 10 "
                        "presence_penalty: 2 frequency_penalty: -2 seed: 18446744073709551615 n: 8"),
               Ok()},
              {"the least that is allowed",
               Sampling("temperature: 0 top_k: 0 top_p: 1.2e-38 min_p: 0 repetition_penalty: 1.2e-38 "
                        "presence_penalty: -2 frequency_penalty: 2 seed: 0 n: 1"),
               Ok()},
          }};
}

Group TokenBanRows() {
  return {
      "TokenBans",
      kAttackConfig,
      {
          {"logit_bias of the token behind the last", Sampling("logit_bias { key: 4096 value: 1 }"),
           Invalid("sampling.logit_bias key", "is 4096; limit is [0, 4096)")},
          {"logit_bias of a negative token", Sampling("logit_bias { key: -1 value: 1 }"),
           Invalid("sampling.logit_bias key", "is -1; limit is [0, 4096)")},
          {"logit_bias of the least token", Sampling("logit_bias { key: -2147483648 value: 1 }"),
           Invalid("sampling.logit_bias key", "is -2147483648; limit is [0, 4096)")},
          {"logit_bias of the largest token", Sampling("logit_bias { key: 2147483647 value: 1 }"),
           Invalid("sampling.logit_bias key", "is 2147483647; limit is [0, 4096)")},
          {"logit_bias NaN", Sampling("logit_bias { key: 7 value: nan }"),
           Invalid("sampling.logit_bias[7]", "is nan; limit is [-100, 100]")},
          {"logit_bias minus infinite", Sampling("logit_bias { key: 7 value: -inf }"),
           Invalid("sampling.logit_bias[7]", "is -inf; limit is [-100, 100]")},
          {"logit_bias above", Sampling("logit_bias { key: 4095 value: 100.5 }"),
           Invalid("sampling.logit_bias[4095]", "is 100.5; limit is [-100, 100]")},
          {"logit_bias entries", Sampling(LogitBiases(1025)),
           Invalid("sampling.logit_bias", "has 1025 entries; limit is 1024")},
          {"logit_bias flood", Sampling(LogitBiases(100000)),
           Invalid("sampling.logit_bias", "has 100000 entries; limit is 1024")},
          {"allowed_token_ids outside", Sampling("allowed_token_ids: [1, 4096]"),
           Invalid("sampling.allowed_token_ids[1]", "is 4096; limit is [0, 4096)")},
          {"allowed_token_ids negative", Sampling("allowed_token_ids: [-1]"),
           Invalid("sampling.allowed_token_ids[0]", "is -1; limit is [0, 4096)")},
          {"allowed_token_ids entries", Sampling(Times(1025, "allowed_token_ids: 5 ")),
           Invalid("sampling.allowed_token_ids", "has 1025 entries; limit is 1024")},
          {"allowed_token_ids flood", Sampling(Times(500000, "allowed_token_ids: 5 ")),
           Invalid("sampling.allowed_token_ids", "has 500000 entries; limit is 1024")},
          {"allowed tokens that are all banned",
           Sampling("allowed_token_ids: [5, 6] bad_words_ids { ids: 5 } bad_words_ids { ids: 6 }"),
           Invalid("sampling.allowed_token_ids",
                   "has only tokens that sampling.bad_words_ids or the model's suppress_tokens ban; limit is one that "
                   "may be drawn")},
          {"allowed tokens that are all banned in the end",
           Sampling("allowed_token_ids: 5 bad_words_ids { ids: [5, 5] }"),
           Refused(grpc::StatusCode::INTERNAL, "NUMERICAL",
                   "no token can be drawn: the model produced no finite value, or every token is banned")},
      }};
}

Group BadWordRows() {
  return {
      "BadWords",
      kAttackConfig,
      {
          {"bad_words_ids entries", Sampling(Times(257, "bad_words_ids { ids: 5 } ")),
           Invalid("sampling.bad_words_ids", "has 257 entries; limit is 256")},
          {"bad_words_ids flood", Sampling(Times(100000, "bad_words_ids { ids: 5 } ")),
           Invalid("sampling.bad_words_ids", "has 100000 entries; limit is 256")},
          {"bad_words_ids without tokens", Sampling("bad_words_ids { ids: 5 } bad_words_ids {}"),
           Invalid("sampling.bad_words_ids[1].ids", "has 0 tokens; limit is 1 to 64")},
          {"bad_words_ids of many tokens", Sampling(absl::StrCat("bad_words_ids { ", Times(65, "ids: 5 "), "}")),
           Invalid("sampling.bad_words_ids[0].ids", "has 65 tokens; limit is 1 to 64")},
          {"bad_words_ids outside", Sampling("bad_words_ids { ids: 5 } bad_words_ids { ids: [5, 4096] }"),
           Invalid("sampling.bad_words_ids[1].ids[1]", "is 4096; limit is [0, 4096)")},
          {"bad_words_ids negative", Sampling("bad_words_ids { ids: -2147483648 }"),
           Invalid("sampling.bad_words_ids[0].ids[0]", "is -2147483648; limit is [0, 4096)")},
          {"bad_words entries", Sampling(Times(65, "bad_words: 'x' ")),
           Invalid("sampling.bad_words", "has 65 entries; limit is 64")},
          {"bad_words flood", Sampling(Times(300000, "bad_words: 'x' ")),
           Invalid("sampling.bad_words", "has 300000 entries; limit is 64")},
          {"bad_words empty", Sampling("bad_words: 'x' bad_words: ''"),
           Invalid("sampling.bad_words[1]", "has 0 bytes; limit is 1 to 256")},
          {"bad_words long", Sampling(absl::StrCat("bad_words: '", Times(257, "x"), "'")),
           Invalid("sampling.bad_words[0]", "has 257 bytes; limit is 1 to 256")},
          {"bad_words of a megabyte", Sampling(absl::StrCat("bad_words: '", Times(1000000, "x"), "'")),
           Invalid("sampling.bad_words[0]", "has 1000000 bytes; limit is 1 to 256")},
          {"bad_words of spaces", Sampling("bad_words: '   '"),
           Invalid("sampling.bad_words[0]", "has 0 tokens; limit is 1 to 64 tokens after leading whitespace")},
          {"bad_words of many tokens", Sampling(absl::StrCat("bad_words: '", Times(85, "~^|"), "'")),
           Invalid("sampling.bad_words[0]", "has 255 tokens; limit is 1 to 64 tokens after leading whitespace")},
          {"bad_words beside as many ids",
           Sampling(absl::StrCat(Times(256, "bad_words_ids { ids: 5 } "), "bad_words: 'x'")),
           Invalid("sampling.bad_words_ids", "has ~ entries; limit is 256")},
          {"bad_words without a tokenizer", Generate("model: 'bare' token_ids { ids: 1 } sampling { bad_words: 'x' }"),
           Refused(grpc::StatusCode::FAILED_PRECONDITION, "NO_TOKENIZER",
                   "the model has no tokenizer; bad_words and echo need one")},
      }};
}

}  // namespace dunlin::integration
