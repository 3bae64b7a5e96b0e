// SPDX-License-Identifier: Apache-2.0
#include "server/serving/text/unembedded_tokens.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

// "the token "<image>" (id 262144), for which the model has no embedding"; "" if the tokenizer has no such token.
std::string Described(engine::TokenId id, const text::Tokenizer& tokenizer) {
  const absl::StatusOr<std::string> text = tokenizer.TokenText(id);
  if (!text.ok()) return "";
  return absl::StrCat("the token \"", absl::Utf8SafeCEscape(*text), "\" (id ", id,
                      "), for which the model has no embedding");
}

}  // namespace

void DropUnembedded(const ServedModel& model, engine::SamplingParams* sampling, engine::StoppingParams* stopping) {
  if (model.tokenizer == nullptr) return;
  const int64_t rows = model.model->config().vocab_size;
  const int64_t tokens = model.tokenizer->vocab_size();
  const auto is_unembedded = [rows, tokens](engine::TokenId id) { return id >= rows && id < tokens; };
  std::erase_if(stopping->stop_token_ids, is_unembedded);
  std::erase_if(sampling->logit_bias, [&](const auto& bias) { return is_unembedded(bias.first); });
  std::erase_if(sampling->bad_words, [&](const std::vector<engine::TokenId>& word) {
    return std::any_of(word.begin(), word.end(), is_unembedded);
  });
}

engine::Violation NameUnembedded(engine::Violation violation, engine::TokenId id, const text::Tokenizer* tokenizer) {
  const std::string described = tokenizer == nullptr ? "" : Described(id, *tokenizer);
  if (!described.empty()) violation.problem = absl::StrCat("is ", described);
  return violation;
}

engine::Violation UnembeddedIn(engine::Field field, engine::FieldIndex index, engine::TokenId id,
                               const text::Tokenizer& tokenizer) {
  return engine::Violation::Of(field, absl::StrCat("has ", Described(id, tokenizer)), "", index);
}

}  // namespace dunlin::server
