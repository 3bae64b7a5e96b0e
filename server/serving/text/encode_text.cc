// SPDX-License-Identifier: Apache-2.0
#include "server/serving/text/encode_text.h"

namespace dunlin::server {
namespace {

// Whether Encode refuses the text by its size alone.
bool IsRefusedUnread(const text::Tokenizer& tokenizer, std::string_view text, const text::EncodeOptions& options) {
  const size_t most = tokenizer.max_bytes_per_token();
  return most != 0 && !options.truncate && text.size() / most > options.max_tokens;
}

}  // namespace

absl::StatusOr<std::vector<engine::TokenId>> EncodeText(const ServingCore& core, const text::Tokenizer& tokenizer,
                                                        std::string_view text, const text::EncodeOptions& options,
                                                        bool* truncated) {
  if (text.size() <= kUnbudgetedBytes || IsRefusedUnread(tokenizer, text, options)) {
    return tokenizer.Encode(text, options, truncated);
  }
  const size_t widest = tokenizer.WidestPiece(text);
  if (widest <= kUnbudgetedBytes) return tokenizer.Encode(text, options, truncated);
  const TextBudget::Share share = core.text_budget()->Take(static_cast<int64_t>(widest));
  core.text_pool()->NoteProgress();
  return tokenizer.Encode(text, options, truncated);
}

absl::StatusOr<std::vector<engine::TokenId>> EncodeChat(const ServingCore& core, const text::Tokenizer& tokenizer,
                                                        const text::RenderedChat& chat, size_t max_tokens) {
  if (IsRefusedUnread(tokenizer, chat.text, {.max_tokens = max_tokens})) {
    return absl::OutOfRangeError("the chat has more tokens than the limit");
  }
  if (chat.text.size() <= kUnbudgetedBytes) return text::ChatTemplate::Encode(tokenizer, chat);
  core.text_pool()->NoteProgress();
  const TextBudget::Share share = core.text_budget()->Take(static_cast<int64_t>(chat.text.size()));
  core.text_pool()->NoteProgress();
  return text::ChatTemplate::Encode(tokenizer, chat);
}

}  // namespace dunlin::server
