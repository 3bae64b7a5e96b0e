// SPDX-License-Identifier: Apache-2.0
// Text <-> token ids of one model, by Hugging Face `tokenizers` itself (a Rust static library behind a small C ABI,
// text/rust/), so that ids and text match transformers exactly.
// Owner: the model. Thread rule: immutable after Load; every const method may be called from any number of threads at
// once. Encode and Decode take time linear in their input and allocate: call them on the text pool, never on a gRPC
// callback thread or the engine thread.
// Source: tokenizer.json as written by Hugging Face `tokenizers` 0.23.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/request/types.h"

struct dunlin_text_tokenizer;  // the C ABI's handle, text/rust/include/dunlin_text.h

namespace dunlin::text {

// Limits of one call; larger inputs are refused with INVALID_ARGUMENT, never truncated.
inline constexpr size_t kMaxTextBytes = size_t{4} << 20;              // Encode
inline constexpr size_t kMaxTokenIds = size_t{1} << 20;               // Decode, StreamDecoder
inline constexpr size_t kMaxTokenizerJsonBytes = size_t{64} << 20;    // tokenizer.json
inline constexpr size_t kMaxTokenizerConfigBytes = size_t{16} << 20;  // tokenizer_config.json

// What a tokenizer is built from where there is no tokenizer.json: a vocabulary with its rules in JSON (made from GGUF
// metadata; rust/src/vocabulary describes it), a SentencePiece model, or a tiktoken vocabulary.
inline constexpr const char* kVocabularyFile = "vocabulary.json";
inline constexpr const char* kSentencePieceFile = "tokenizer.model";
inline constexpr const char* kTiktokenFile = "tiktoken.model";

struct EncodeOptions {
  // Add the special tokens that the model expects around a text (BOS, EOS): the post-processor of tokenizer.json, as
  // overridden by add_bos_token / add_eos_token of tokenizer_config.json.
  bool add_special_tokens = true;

  // False: text such as "<|endoftext|>" is plain text and never becomes a special token. True only for text that the
  // server made itself (a rendered chat template). Added tokens without `special` match in both modes.
  bool parse_special = false;

  // Of a text with more tokens, no more is read than shows this.
  size_t max_tokens = SIZE_MAX;

  // Drop the end of a text with more than max_tokens instead of refusing it; special tokens around it are kept.
  bool truncate = false;
};

// The special tokens around a pair of texts.
struct PairFrame {
  std::vector<engine::TokenId> prefix;
  std::vector<engine::TokenId> middle;
  std::vector<engine::TokenId> suffix;
  // So many of `middle` have token type 0, as all before them; all behind them have type 1. -1: all have type 0.
  int64_t middle_first = -1;

  size_t size() const { return prefix.size() + middle.size() + suffix.size(); }
};

class Tokenizer {
 public:
  // Reads `model_dir`/tokenizer.json and, where it exists, `model_dir`/tokenizer_config.json, both as engine::Directory
  // opens files: through no link that leaves the model's directory.
  // vocab_limit: rows of the model's embedding; every token id must be below it, but for added tokens, which the model
  // then cannot read: a prompt that has one is refused. 0: only kMaxVocabSize applies.
  // Errors: NOT_FOUND (no tokenizer.json); INVALID_ARGUMENT (a file is malformed, too large, or breaks a rule: the
  //   message names the file, the place in it, the value and the limit).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& model_dir, int64_t vocab_limit);

  // As Load, from the files of a model. Without a tokenizer.json it is built from the first of kVocabularyFile,
  // kSentencePieceFile and kTiktokenFile; INVALID_ARGUMENT names what of it is not supported.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const engine::TextFiles& files, int64_t vocab_limit);

  // Whether Load finds a tokenizer among the files.
  static bool IsIn(const engine::TextFiles& files);

  // As Load, from memory. tokenizer_config_json may be empty.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(std::string_view tokenizer_json,
                                                             std::string_view tokenizer_config_json,
                                                             int64_t vocab_limit);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Token ids of `text` (valid UTF-8, NUL allowed, at most kMaxTextBytes), each in [0, vocab_size()). Runs at about 3
  // MB/s on one core, in pieces of some 32 KiB where the text can be cut without changing its tokens, and takes up to
  // 120 bytes of memory per byte of the largest piece (WidestPiece). A text whose bytes alone show that it has more
  // than max_tokens is not read at all. *truncated, unless null: whether the end of the text was dropped. Errors:
  // OUT_OF_RANGE (more than max_tokens); INVALID_ARGUMENT (not UTF-8, too long, a character that the vocabulary
  //   cannot encode); INTERNAL (the regular expression of tokenizer.json exceeds its backtracking limit). Messages
  //   never quote the text.
  absl::StatusOr<std::vector<engine::TokenId>> Encode(std::string_view text, const EncodeOptions& options = {},
                                                      bool* truncated = nullptr) const;

  // What the post-processor of tokenizer.json puts around a pair of texts. Errors: FAILED_PRECONDITION (it has no form
  // for pairs).
  absl::StatusOr<PairFrame> FindPairFrame() const;

  // Most bytes of text that one token can stand for; 0: no bound is known.
  size_t max_bytes_per_token() const { return max_bytes_per_token_; }

  // Bytes of the largest piece of `text` that Encode reads at once; all of it where it cannot be cut.
  size_t WidestPiece(std::string_view text) const;

  // Text of `ids` (at most kMaxTokenIds), always valid UTF-8: invalid bytes become U+FFFD. skip_special drops special
  // tokens. An id without a token (a padded embedding row) adds nothing. For incremental decoding use StreamDecoder.
  // Errors: INVALID_ARGUMENT (a negative id, too many ids).
  absl::StatusOr<std::string> Decode(std::span<const engine::TokenId> ids, bool skip_special = true) const;

  // Largest token id + 1, added tokens included; ids below may be unused.
  int64_t vocab_size() const { return vocab_size_; }

  // Id of the token that the vocabulary spells `token` ("Ġthe", "</s>").
  std::optional<engine::TokenId> TokenToId(std::string_view token) const;

  // The token as the vocabulary spells it. Errors: OUT_OF_RANGE (no token has this id).
  absl::StatusOr<std::string> TokenText(engine::TokenId id) const;

  // The bytes that the token contributes inside a text; not necessarily UTF-8, as a token may be part of a character.
  // Errors: OUT_OF_RANGE (no token has this id).
  absl::StatusOr<std::string> TokenBytes(engine::TokenId id) const;

  // Ids of the tokens marked `special`, ascending.
  const std::vector<engine::TokenId>& special_token_ids() const { return special_token_ids_; }
  bool IsSpecial(engine::TokenId id) const;

  // bos_token and eos_token of tokenizer_config.json. (ModelConfig::eos_token_ids says which ids end a generation.)
  std::optional<engine::TokenId> bos_token_id() const { return bos_token_id_; }
  std::optional<engine::TokenId> eos_token_id() const { return eos_token_id_; }

 private:
  friend class StreamDecoder;
  friend class ChatTemplate;
  friend class GrammarCompiler;

  static absl::StatusOr<std::unique_ptr<Tokenizer>> Build(int32_t form, std::string_view text, std::string_view config,
                                                          int64_t vocab_limit);
  explicit Tokenizer(dunlin_text_tokenizer* handle);
  const dunlin_text_tokenizer* handle() const { return handle_; }

  dunlin_text_tokenizer* handle_;  // owned, never null
  int64_t vocab_size_;
  size_t max_bytes_per_token_;
  std::vector<engine::TokenId> special_token_ids_;
  std::optional<engine::TokenId> bos_token_id_;
  std::optional<engine::TokenId> eos_token_id_;
};

}  // namespace dunlin::text
