// SPDX-License-Identifier: Apache-2.0
// Incremental detokenisation of one sequence while it is generated. Every delta consists of whole UTF-8 characters, and
// all deltas together equal Tokenizer::Decode of all ids, however the ids are split into calls. The cost per token is
// constant. Held back are an unfinished character (at most 3 bytes) or, with SentencePiece byte tokens, the open run of
// byte tokens (see Push).
// Owner: the request. Thread rule: one thread at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/tokenizer.h"

struct dunlin_text_stream;  // the C ABI's handle, text/rust/include/dunlin_text.h

namespace dunlin::text {

class StreamDecoder {
 public:
  // context: the ids before the first pushed one; empty when the output starts a text. Their text is not returned, but
  //   it decides how the output starts: SentencePiece drops the space before a text's first word, and a continuation
  //   keeps it. The last 16 ids of a prompt suffice; the whole prompt costs about 0.3 us per id. An unfinished
  //   character at the end of the context is completed by the first pushed ids.
  // skip_special: as in Tokenizer::Decode, for the context too.
  // The stream shares ownership of the tokenizer's data, so it may outlive `tokenizer`.
  // Errors: INVALID_ARGUMENT (a negative id, more than kMaxTokenIds).
  static absl::StatusOr<StreamDecoder> Create(const Tokenizer& tokenizer, std::span<const engine::TokenId> context = {},
                                              bool skip_special = true);

  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  // The text that is final after these ids, possibly empty. Byte tokens of a SentencePiece vocabulary (<0xE2>) are held
  // until their run ends: Hugging Face's decoder turns the whole run into U+FFFD if any part of it is invalid.
  // Errors: INVALID_ARGUMENT (a negative id, more than kMaxTokenIds over the stream's life);
  //   FAILED_PRECONDITION (after Finish). A refused call leaves the state unchanged.
  absl::StatusOr<std::string> Push(std::span<const engine::TokenId> ids);
  absl::StatusOr<std::string> Push(engine::TokenId id) { return Push(std::span<const engine::TokenId>(&id, 1)); }

  // Ends the stream: returns the held text, an unfinished character as U+FFFD.
  // Errors: FAILED_PRECONDITION (called twice).
  absl::StatusOr<std::string> Finish();

 private:
  struct Free {
    void operator()(dunlin_text_stream* handle) const;
  };
  explicit StreamDecoder(dunlin_text_stream* handle);

  std::unique_ptr<dunlin_text_stream, Free> handle_;
};

}  // namespace dunlin::text
