// Token ids in, text out, while a sequence is being generated. One object per sequence and output.
// What it promises: every delta is whole UTF-8 characters, and all deltas together are exactly what
// Tokenizer::Decode gives for all ids at once, however the ids were cut into calls. The price is
// constant per token; what is held back is an unfinished character (at most 3 bytes) or, with
// SentencePiece byte tokens, the run of byte tokens that is still open (see Push).
// Owner: the request. Thread rule: one thread at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"

struct dunlin_text_stream;  // the C ABI's handle, engine/text/rust/include/dunlin_text.h

namespace dunlin::engine {

class StreamDecoder {
 public:
  // context: the ids that stand before the first pushed one, empty when the output stands alone.
  //   Their text is not repeated, but it decides how the output starts: SentencePiece drops the
  //   space in front of a text's first word, and a continuation keeps it. The last 16 ids of a
  //   prompt suffice for that; the whole prompt is fine too (about 0.3 us per id). An
  //   unfinished character at the end of the context is finished by the first pushed ids.
  // skip_special: as in Tokenizer::Decode; also leaves special tokens of the context out of sight.
  // The stream keeps what it needs of `tokenizer` alive itself.
  // Errors: INVALID_ARGUMENT (a negative id, more than kMaxTokenIds).
  static absl::StatusOr<StreamDecoder> Create(const Tokenizer& tokenizer, std::span<const TokenId> context = {},
                                              bool skip_special = true);

  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  // The text that became certain with these ids, possibly empty. Byte tokens of a SentencePiece
  // vocabulary (<0xE2>) are held until their run ends: Hugging Face's decoder makes the whole run
  // U+FFFD when any part of it is broken, so nothing of it is certain before.
  // Errors: INVALID_ARGUMENT (a negative id, more than kMaxTokenIds over the stream's life);
  //   FAILED_PRECONDITION (after Finish). The stream's state is unchanged by a refused call.
  absl::StatusOr<std::string> Push(std::span<const TokenId> ids);
  absl::StatusOr<std::string> Push(TokenId id) { return Push(std::span<const TokenId>(&id, 1)); }

  // The rest: what was held, an unfinished character as U+FFFD. Once.
  // Errors: FAILED_PRECONDITION (called twice).
  absl::StatusOr<std::string> Finish();

 private:
  struct Free {
    void operator()(dunlin_text_stream* handle) const;
  };
  explicit StreamDecoder(dunlin_text_stream* handle);

  std::unique_ptr<dunlin_text_stream, Free> handle_;
};

}  // namespace dunlin::engine
