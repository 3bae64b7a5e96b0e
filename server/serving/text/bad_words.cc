// SPDX-License-Identifier: Apache-2.0
#include "server/serving/text/bad_words.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {
namespace {

constexpr std::string_view kWhitespace = " \t\n\v\f\r";

}  // namespace

std::optional<engine::Violation> AppendBadWord(const std::string& text, int64_t index, const text::Tokenizer& tokenizer,
                                               std::vector<std::vector<engine::TokenId>>* bad_words) {
  const std::string word = text.substr(std::min(text.find_first_not_of(kWhitespace), text.size()));
  const text::EncodeOptions options{.add_special_tokens = false, .parse_special = false};
  const auto bare = tokenizer.Encode(word, options);
  const auto spaced = tokenizer.Encode(" " + word, options);
  const auto violation = [index](std::string problem) {
    return engine::Violation::Of(ClientField::kBadWord, std::move(problem),
                                 absl::StrCat("1 to ", engine::kMaxBadWordTokens, " tokens after leading whitespace"),
                                 {index});
  };
  if (!bare.ok()) return violation(std::string(engine::StdView(bare.status().message())));
  if (!spaced.ok()) return violation(std::string(engine::StdView(spaced.status().message())));
  if (word.empty() || bare->empty() || bare->size() > engine::kMaxBadWordTokens) {
    return violation(absl::StrCat("has ", word.empty() ? 0 : bare->size(), " tokens"));
  }
  bad_words->push_back(*bare);
  if (spaced->size() == bare->size() && spaced->front() != bare->front()) bad_words->push_back(*spaced);
  return std::nullopt;
}

void DropEndOfSequence(std::span<const engine::TokenId> eos_token_ids,
                       std::vector<std::vector<engine::TokenId>>* bad_words) {
  std::erase_if(*bad_words, [eos_token_ids](const std::vector<engine::TokenId>& word) {
    return word.size() == 1 && std::find(eos_token_ids.begin(), eos_token_ids.end(), word[0]) != eos_token_ids.end();
  });
}

}  // namespace dunlin::server
