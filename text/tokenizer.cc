// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file.h"
#include "text/abi.h"

namespace dunlin::text {
namespace {

std::optional<engine::TokenId> IdOrNone(int64_t id) {
  if (id < 0) return std::nullopt;
  return static_cast<engine::TokenId>(id);
}

// The files that a tokenizer is made from, in the order of preference.
struct Form {
  const char* file;
  int32_t form;
};
constexpr Form kForms[] = {{"tokenizer.json", DUNLIN_TEXT_TOKENIZER_JSON},
                           {kVocabularyFile, DUNLIN_TEXT_VOCABULARY},
                           {kSentencePieceFile, DUNLIN_TEXT_SENTENCEPIECE},
                           {kTiktokenFile, DUNLIN_TEXT_TIKTOKEN}};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& model_dir, int64_t vocab_limit) {
  const absl::StatusOr<engine::Directory> directory = engine::Directory::Open(model_dir);
  if (!directory.ok()) {
    return absl::Status(directory.status().code(), absl::StrCat("tokenizer.json: ", directory.status().message()));
  }
  return Load(*directory, vocab_limit);
}

bool Tokenizer::IsIn(const engine::TextFiles& files) {
  return std::any_of(std::begin(kForms), std::end(kForms), [&](const Form& form) { return files.Has(form.file); });
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const engine::TextFiles& files, int64_t vocab_limit) {
  const auto* form =
      std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& row) { return files.Has(row.file); });
  if (form == std::end(kForms)) form = kForms;
  const absl::StatusOr<std::string> text = files.ReadFile(form->file, kMaxTokenizerJsonBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::string> config = files.ReadFile("tokenizer_config.json", kMaxTokenizerConfigBytes);
  if (absl::IsNotFound(config.status()) && !files.Has("tokenizer_config.json")) config = std::string();
  if (!config.ok()) return config.status();
  return Build(form->form, *text, *config, vocab_limit);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(std::string_view tokenizer_json,
                                                               std::string_view tokenizer_config_json,
                                                               int64_t vocab_limit) {
  return Build(DUNLIN_TEXT_TOKENIZER_JSON, tokenizer_json, tokenizer_config_json, vocab_limit);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Build(int32_t form, std::string_view text,
                                                            std::string_view config, int64_t vocab_limit) {
  dunlin_text_tokenizer* handle = nullptr;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_tokenizer_load(form, text_abi::Data(text), text.size(), text_abi::Data(config),
                                                  config.size(), vocab_limit, &handle, &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return std::unique_ptr<Tokenizer>(new Tokenizer(handle));
}

Tokenizer::Tokenizer(dunlin_text_tokenizer* handle) : handle_(handle) {
  dunlin_text_facts facts{};
  dunlin_text_get_facts(handle_, &facts);
  vocab_size_ = facts.vocab_size;
  max_bytes_per_token_ = facts.max_bytes_per_token;
  bos_token_id_ = IdOrNone(facts.bos_token_id);
  eos_token_id_ = IdOrNone(facts.eos_token_id);
  text_abi::Ids special;
  dunlin_text_special_ids(handle_, special.out(), nullptr);
  special_token_ids_ = special.Take();
}

Tokenizer::~Tokenizer() {
  dunlin_text_tokenizer_free(handle_);
}

absl::StatusOr<std::vector<engine::TokenId>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options,
                                                               bool* truncated) const {
  uint32_t flags = 0;
  if (options.add_special_tokens) flags |= DUNLIN_TEXT_ADD_SPECIAL_TOKENS;
  if (options.parse_special) flags |= DUNLIN_TEXT_PARSE_SPECIAL;
  if (options.truncate) flags |= DUNLIN_TEXT_TRUNCATE;
  text_abi::Ids ids;
  bool is_longer = false;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_encode(handle_, text_abi::Data(text), text.size(), flags, options.max_tokens,
                                          ids.out(), &is_longer, &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  std::vector<engine::TokenId> tokens = ids.Take();
  // Empty: not even the special tokens around the text fit.
  if (is_longer && (!options.truncate || tokens.empty())) {
    return absl::OutOfRangeError(absl::StrCat("has more than ", options.max_tokens, " tokens"));
  }
  if (truncated != nullptr) *truncated = is_longer;
  return tokens;
}

absl::StatusOr<PairFrame> Tokenizer::FindPairFrame() const {
  text_abi::Ids prefix;
  text_abi::Ids middle;
  text_abi::Ids suffix;
  PairFrame frame;
  dunlin_text_error error{};
  const int32_t code =
      dunlin_text_pair_frame(handle_, prefix.out(), middle.out(), suffix.out(), &frame.middle_first, &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  frame.prefix = prefix.Take();
  frame.middle = middle.Take();
  frame.suffix = suffix.Take();
  return frame;
}

size_t Tokenizer::WidestPiece(std::string_view text) const {
  return dunlin_text_widest_piece(handle_, text_abi::Data(text), text.size());
}

absl::StatusOr<std::string> Tokenizer::Decode(std::span<const engine::TokenId> ids, bool skip_special) const {
  text_abi::Bytes text;
  dunlin_text_error error{};
  const uint32_t flags = skip_special ? DUNLIN_TEXT_SKIP_SPECIAL : 0;
  const int32_t code = dunlin_text_decode(handle_, ids.data(), ids.size(), flags, text.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return text.Take();
}

std::optional<engine::TokenId> Tokenizer::TokenToId(std::string_view token) const {
  return IdOrNone(dunlin_text_token_to_id(handle_, text_abi::Data(token), token.size()));
}

absl::StatusOr<std::string> Tokenizer::TokenText(engine::TokenId id) const {
  text_abi::Bytes text;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_token_text(handle_, id, text.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return text.Take();
}

absl::StatusOr<std::string> Tokenizer::TokenBytes(engine::TokenId id) const {
  text_abi::Bytes bytes;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_token_bytes(handle_, id, bytes.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return bytes.Take();
}

bool Tokenizer::IsSpecial(engine::TokenId id) const {
  return std::binary_search(special_token_ids_.begin(), special_token_ids_.end(), id);
}

}  // namespace dunlin::text
