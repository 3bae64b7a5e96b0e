// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/logprobs_text.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/json/json_text.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

void AppendComma(std::string* list) {
  if (!list->empty()) list->push_back(',');
}

// `"token":...,"logprob":...,"bytes":[...]`
void AppendScored(std::string_view bytes, float logprob, std::string* out) {
  AppendJsonMember("token", Utf8OrReplaced(bytes), out);
  out->append(",\"logprob\":");
  AppendJsonNumber(logprob, out);
  out->append(",\"bytes\":");
  AppendJsonBytes(bytes, out);
}

// `"<id>":{"logprob":...,"rank":...,"decoded_token":...}`
void AppendRanked(engine::TokenId id, float logprob, int64_t rank, std::string_view bytes, std::string* out) {
  absl::StrAppend(out, "\"", id, "\":{\"logprob\":");
  AppendJsonNumber(logprob, out);
  absl::StrAppend(out, ",\"rank\":", rank, ",");
  AppendJsonMember("decoded_token", Utf8OrReplaced(bytes), out);
  out->push_back('}');
}

std::string IdName(engine::TokenId id) {
  return absl::StrCat("token_id:", id);
}

// "token_id:5" for a token without bytes: the model has no tokenizer, or none of its tokens has this id.
std::string NameOf(engine::TokenId id, std::string_view bytes) {
  return bytes.empty() ? IdName(id) : TokenText(bytes);
}

size_t CharactersIn(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string TokenText(std::string_view bytes) {
  if (text::IsValidUtf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char c : bytes) absl::StrAppendFormat(&text, "\\x%02x", static_cast<unsigned char>(c));
  return text;
}

void AppendChatLogprobs(const TokenLogprobs& logprobs, std::string* out) {
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const TokenLogprobs::Entry entry = logprobs[i];
    AppendComma(out);
    out->push_back('{');
    AppendScored(entry.bytes, entry.logprob, out);
    out->append(",\"top_logprobs\":[");
    for (const TokenLogprobs::Scored& top : entry.top) {
      out->append(&top == entry.top.data() ? "{" : ",{");
      AppendScored(logprobs.BytesOf(top), top.logprob, out);
      out->push_back('}');
    }
    out->append("]}");
  }
}

void AppendPromptLogprobs(const TokenLogprobs& logprobs, std::string* out) {
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const TokenLogprobs::Entry entry = logprobs[i];
    out->append(",{");
    AppendRanked(entry.token_id, entry.logprob, entry.rank, entry.bytes, out);
    int64_t rank = 0;
    for (const TokenLogprobs::Scored& top : entry.top) {
      ++rank;
      if (top.token_id == entry.token_id) continue;
      out->push_back(',');
      AppendRanked(top.token_id, top.logprob, rank, logprobs.BytesOf(top), out);
    }
    out->push_back('}');
  }
}

void CompletionLogprobs::AddToken(std::string_view name, std::string_view bytes) {
  AppendComma(&tokens_);
  AppendJsonString(name, &tokens_);
  AppendComma(&text_offset_);
  absl::StrAppend(&text_offset_, characters_);
  characters_ += CharactersIn(bytes);
}

void CompletionLogprobs::AddUnscored(std::string_view bytes) {
  AddToken(TokenText(bytes), bytes);
  token_logprobs_.append("null");
  top_logprobs_.append("null");
}

void CompletionLogprobs::Add(const TokenLogprobs& logprobs) {
  for (size_t i = 0; i < logprobs.size(); ++i) {
    const TokenLogprobs::Entry entry = logprobs[i];
    AddToken(NameOf(entry.token_id, entry.bytes), entry.bytes);
    AppendComma(&token_logprobs_);
    AppendJsonNumber(entry.logprob, &token_logprobs_);
    AppendComma(&top_logprobs_);
    AppendTop(logprobs, entry.top);
  }
}

// Tokens of different ids may have the same text, and an object has a key once: the more likely one keeps the text.
void CompletionLogprobs::AppendTop(const TokenLogprobs& logprobs, std::span<const TokenLogprobs::Scored> top) {
  absl::flat_hash_set<std::string> names;
  top_logprobs_.push_back('{');
  for (const TokenLogprobs::Scored& scored : top) {
    std::string name = NameOf(scored.token_id, logprobs.BytesOf(scored));
    if (names.contains(name)) name = IdName(scored.token_id);
    if (!names.empty()) top_logprobs_.push_back(',');
    AppendJsonString(name, &top_logprobs_);
    top_logprobs_.push_back(':');
    AppendJsonNumber(scored.logprob, &top_logprobs_);
    names.insert(std::move(name));
  }
  top_logprobs_.push_back('}');
}

void CompletionLogprobs::Take(std::string* out) {
  absl::StrAppend(out, "{\"tokens\":[", tokens_, "],\"token_logprobs\":[", token_logprobs_, "],\"top_logprobs\":[",
                  top_logprobs_, "],\"text_offset\":[", text_offset_, "]}");
  for (std::string* list : {&tokens_, &token_logprobs_, &top_logprobs_, &text_offset_}) list->clear();
}

}  // namespace dunlin::server
