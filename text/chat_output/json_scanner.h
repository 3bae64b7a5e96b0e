// SPDX-License-Identifier: Apache-2.0
// Recognises one JSON value (RFC 8259) byte by byte: strict, at most kMaxDepth deep. UTF-8 is not checked; the text
// that a tokenizer decodes is UTF-8.
// Owner: a reader. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/chat_output/scan.h"

namespace dunlin::text {

class JsonScanner {
 public:
  static constexpr size_t kMaxDepth = 64;

  // kDoneBefore: only after a number, whose end the byte behind it shows. REQUIRES: the value is not complete.
  Scan Take(char c);
  // Whether the value would be complete here: after a number.
  bool ends_here() const { return containers_.empty() && NumberEnds(); }

 private:
  enum class State : uint8_t {
    kValue,
    kValueOrEnd,  // after '['
    kKeyOrEnd,    // after '{'
    kKey,         // after ',' in an object
    kColon,
    kNext,  // after a value in a container
    kString,
    kEscape,
    kHex,
    kWord,
    // Numbers.
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };
  Scan BeginValue(char c);
  Scan BeginKey(char c);
  Scan EndValue();
  Scan Close(bool object);
  Scan TakeNext(char c);
  Scan TakeString(char c);
  Scan TakeEscape(char c);
  Scan TakeNumber(char c);
  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }
  bool NumberEnds() const;

  State state_ = State::kValue;
  std::vector<bool> containers_;  // true: an object
  bool key_ = false;              // the string is a key
  int hex_digits_ = 0;
  Literal word_{"null"};
};

// Whether a text is one JSON value, without white space around it.
bool IsJson(std::string_view text);

}  // namespace dunlin::text
