// SPDX-License-Identifier: Apache-2.0
#include "text/stream_decoder.h"

#include "text/abi.h"

namespace dunlin::text {

absl::StatusOr<StreamDecoder> StreamDecoder::Create(const Tokenizer& tokenizer,
                                                    std::span<const engine::TokenId> context, bool skip_special) {
  dunlin_text_stream* handle = nullptr;
  dunlin_text_error error{};
  const uint32_t flags = skip_special ? DUNLIN_TEXT_SKIP_SPECIAL : 0;
  const int32_t code =
      dunlin_text_stream_new(tokenizer.handle(), context.data(), context.size(), flags, &handle, &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return StreamDecoder(handle);
}

StreamDecoder::StreamDecoder(dunlin_text_stream* handle) : handle_(handle) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

void StreamDecoder::Free::operator()(dunlin_text_stream* handle) const {
  dunlin_text_stream_free(handle);
}

absl::StatusOr<std::string> StreamDecoder::Push(std::span<const engine::TokenId> ids) {
  text_abi::Bytes text;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_stream_push(handle_.get(), ids.data(), ids.size(), text.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return text.Take();
}

absl::StatusOr<std::string> StreamDecoder::Finish() {
  text_abi::Bytes text;
  dunlin_text_error error{};
  const int32_t code = dunlin_text_stream_finish(handle_.get(), text.out(), &error);
  if (code != 0) return text_abi::ToStatus(code, error);
  return text.Take();
}

}  // namespace dunlin::text
