// SPDX-License-Identifier: Apache-2.0
#include "server/serving/output/output_text.h"

#include <algorithm>
#include <utility>

namespace dunlin::server {

absl::StatusOr<OutputText> OutputText::Create(const Options& options) {
  OutputText out;
  out.stop_strings_ = options.stop_strings;
  out.stop_token_ids_ = options.stop_token_ids;
  std::sort(out.stop_token_ids_.begin(), out.stop_token_ids_.end());
  out.include_stop_ = options.include_stop;
  out.logprobs_ = options.logprobs;
  out.token_bytes_ = options.token_bytes;
  if (options.tokenizer == nullptr) return out;
  const bool skip_special = !options.keep_special_tokens && !options.chat.has_value();
  if (options.chat.has_value()) {
    out.chat_ = std::make_unique<ChatOutput>(*options.chat);
    out.kept_special_ = options.chat->special_tokens;
    if (!options.keep_special_tokens) out.drop_special_of_ = options.tokenizer;
  }
  std::vector<engine::TokenId> prompt_tail;
  for (const engine::TokenId id : options.prompt_tail) {
    if (out.drop_special_of_ == nullptr || !out.drop_special_of_->IsSpecial(id)) prompt_tail.push_back(id);
  }
  const std::span<const engine::TokenId> context =
      options.echo ? std::span<const engine::TokenId>() : std::span<const engine::TokenId>(prompt_tail);
  absl::StatusOr<text::StreamDecoder> decoder = text::StreamDecoder::Create(*options.tokenizer, context, skip_special);
  if (!decoder.ok()) return decoder.status();
  if (options.echo) {
    absl::StatusOr<std::string> prompt = decoder->Push(prompt_tail);
    if (!prompt.ok()) return prompt.status();
    out.echo_ = *std::move(prompt);
  }
  absl::StatusOr<text::StopMatcher> matcher = text::StopMatcher::Create(options.stop_strings, options.include_stop);
  if (!matcher.ok()) return matcher.status();
  out.decoder_.emplace(*std::move(decoder));
  out.matcher_.emplace(*std::move(matcher));
  return out;
}

bool OutputText::TakeEcho(size_t max_bytes, OutputChunk* chunk) {
  size_t end = std::min(echo_.size(), echo_taken_ + max_bytes);
  // Not within a UTF-8 character: continuation bytes are 10xxxxxx.
  while (end < echo_.size() && (static_cast<unsigned char>(echo_[end]) & 0xC0U) == 0x80U) --end;
  chunk->text.append(echo_, echo_taken_, end - echo_taken_);
  echo_taken_ = end;
  if (end < echo_.size()) return true;
  echo_ = {};
  echo_taken_ = 0;
  return false;
}

absl::Status OutputText::Add(const TokenRing::Token& token, std::span<const engine::TopLogprob> top,
                             OutputChunk* chunk) {
  ++num_tokens_;
  chunk->token_ids.push_back(token.id);
  if (logprobs_) chunk->logprobs.Add(token, top, token_bytes_);
  if (!decoder_.has_value()) return absl::OkStatus();
  const bool stop_token = std::binary_search(stop_token_ids_.begin(), stop_token_ids_.end(), token.id);
  if ((stop_token && !include_stop_) || Dropped(token.id)) return absl::OkStatus();
  const absl::StatusOr<std::string> text = decoder_->Push(token.id);
  if (!text.ok()) return text.status();
  AppendText(*text, chunk);
  return absl::OkStatus();
}

absl::Status OutputText::Finish(OutputChunk* chunk) {
  if (!decoder_.has_value()) return absl::OkStatus();
  if (!stopped()) {
    const absl::StatusOr<std::string> rest = decoder_->Finish();
    if (!rest.ok()) return rest.status();
    AppendText(*rest, chunk);
  }
  AppendCertain(matcher_->Finish(), chunk);
  if (chat_ != nullptr) chat_->Finish(chunk);
  return absl::OkStatus();
}

bool OutputText::Dropped(engine::TokenId id) const {
  return drop_special_of_ != nullptr && drop_special_of_->IsSpecial(id) &&
         !std::binary_search(kept_special_.begin(), kept_special_.end(), id);
}

void OutputText::AppendCertain(std::string_view text, OutputChunk* chunk) {
  if (chat_ != nullptr) return chat_->Push(text, chunk);
  chunk->text.append(text);
}

void OutputText::AppendText(const std::string& text, OutputChunk* chunk) {
  if (text.empty()) return;
  const text::StopMatcher::Result result = matcher_->Push(text);
  AppendCertain(result.text, chunk);
  matched_stop_ = result.stop_index;
}

}  // namespace dunlin::server
