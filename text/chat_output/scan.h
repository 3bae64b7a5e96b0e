// SPDX-License-Identifier: Apache-2.0
// Pieces that the parsers of a chat's output share: the result of reading one byte, markers in a text, literals.
// Plain functions and values. Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dunlin::text {

// What a byte is to the reader that got it.
enum class Scan : uint8_t {
  kMore,        // it was taken; more must follow
  kDone,        // it was taken, and is the last one
  kDoneBefore,  // it was not taken: what was read is complete without it
  kInvalid,     // it was not taken, and cannot follow
};

inline bool IsJsonSpace(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

struct MarkerMatch {
  size_t position = 0;           // of the marker; the text's size: there is none
  std::optional<size_t> marker;  // its index; none: the text ends in the beginning of one
};
// The first place where a marker stands, or where the text ends in a part of one. Of two markers that begin at the same
// place, one that is complete counts; no marker is the beginning of another.
MarkerMatch FindMarker(std::string_view text, std::span<const std::string_view> markers);
// The same at the beginning of a text; nullopt: neither.
std::optional<MarkerMatch> MarkerAtStart(std::string_view text, std::span<const std::string_view> markers);

// A tag that must follow, or one of several; white space before it is left out.
class NextTag {
 public:
  // kMore; kDone: tags[found()] is complete; kInvalid.
  Scan Take(char c, std::span<const std::string_view> tags);
  size_t found() const { return found_; }

 private:
  std::string text_;
  size_t found_ = 0;
};

// A text that must follow.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}  // not empty; outlives this
  Scan Take(char c) {
    if (c != text_[taken_]) return Scan::kInvalid;
    return ++taken_ == text_.size() ? Scan::kDone : Scan::kMore;
  }

 private:
  std::string_view text_;
  size_t taken_ = 0;
};

}  // namespace dunlin::text
