// SPDX-License-Identifier: Apache-2.0
// Turns one Python literal into JSON, byte by byte: strings, numbers, True, False, None (and their JSON spelling),
// lists, tuples and dictionaries with strings as keys. Prefixed, triple-quoted and adjacent strings are refused.
// Owner: a reader. Thread rule: one thread at a time.
// Source: The Python Language Reference 3, 2.4 (literals).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "text/chat_output/scan.h"

namespace dunlin::text {

inline constexpr size_t kMaxPythonWordBytes = 4096;
// Bytes of a number or a word.
bool IsPythonWordByte(char c);
// A number or a word in JSON's spelling; "": it is neither.
std::string PythonWordInJson(std::string word);

class PythonLiteral {
 public:
  static constexpr size_t kMaxDepth = 64;

  // Appends to *json what the byte adds. kDoneBefore: only after a number or a word, whose end the byte behind it
  // shows.
  Scan Take(char c, std::string* json);

 private:
  enum class State : uint8_t { kValue, kNext, kColon, kString, kEscape, kCode, kOctal, kWord };
  Scan BeginValue(char c, std::string* json);
  Scan TakeNext(char c, std::string* json);
  Scan EndValue();
  Scan TakeString(char c, std::string* json);
  Scan TakeEscape(char c, std::string* json);
  Scan TakeCode(char c, std::string* json);
  Scan EndWord(char c, std::string* json);
  Scan Close(std::string* json);
  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }

  State state_ = State::kValue;
  std::vector<char> closers_;  // of the open containers
  bool may_close_ = false;     // no value need follow: after an opening bracket or a comma
  bool comma_ = false;         // the next value comes behind a comma
  bool key_ = false;           // the string is a key
  char quote_ = '"';
  size_t code_digits_ = 0;  // of an escape that names a character
  std::string code_;
  std::string word_;  // a number or a word, as far as read
};

}  // namespace dunlin::text
