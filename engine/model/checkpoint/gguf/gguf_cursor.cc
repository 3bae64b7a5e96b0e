// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_cursor.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kBufferBytes = 64 << 10;

}  // namespace

uint64_t GgufCursor::Unsigned(uint32_t bytes) {
  if (!Reserve(bytes)) return 0;
  std::array<std::byte, sizeof(uint64_t)> raw{};
  Copy(raw.data(), bytes);
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(raw[i]);
  return value;
}

std::string GgufCursor::Text(uint64_t limit, const char* what) {
  const uint64_t length = Unsigned(sizeof(uint64_t));
  if (length > limit) Fail(absl::StrCat(what, " has ", length, " bytes; limit is ", limit));
  if (!Reserve(length)) return "";
  std::string text(length, '\0');
  Copy(reinterpret_cast<std::byte*>(text.data()), length);
  return text;
}

uint64_t GgufCursor::Skip(uint64_t bytes) {
  if (!Reserve(bytes)) return 0;
  const uint64_t begin = offset_;
  offset_ += bytes;
  return begin;
}

void GgufCursor::Fail(const std::string& what) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(where_, ": ", what));
}

bool GgufCursor::Reserve(uint64_t bytes) {
  if (!status_.ok()) return false;
  if (bytes > file_bytes_ - offset_) {
    Fail(absl::StrCat("the file ends at ", file_bytes_, " bytes, ", bytes, " are needed at ", offset_,
                      ": it is cut short"));
    return false;
  }
  if (offset_ + bytes > kMaxGgufHeaderBytes) {
    Fail(absl::StrCat("the header has more than ", kMaxGgufHeaderBytes, " bytes"));
    return false;
  }
  return true;
}

void GgufCursor::Copy(std::byte* out, size_t bytes) {
  while (bytes > 0) {
    if (offset_ < buffer_begin_ || offset_ >= buffer_begin_ + buffer_.size()) {
      buffer_.resize(std::min(kBufferBytes, file_bytes_ - offset_));
      buffer_begin_ = offset_;
      if (absl::Status read = read_(offset_, buffer_); !read.ok()) {
        buffer_.clear();
        if (status_.ok()) status_ = std::move(read);
        std::memset(out, 0, bytes);
        return;
      }
    }
    const size_t at = offset_ - buffer_begin_;
    const size_t count = std::min(bytes, buffer_.size() - at);
    std::memcpy(out, buffer_.data() + at, count);
    offset_ += count;
    out += count;
    bytes -= count;
  }
}

}  // namespace dunlin::engine
