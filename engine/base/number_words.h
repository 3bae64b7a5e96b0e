// SPDX-License-Identifier: Apache-2.0
// NaN, Infinity and -Infinity, which Python's json module writes and JSON does not have. For the parser each becomes
// something of JSON that the text has nowhere else.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace dunlin::engine {

class NumberWords {
 public:
  // Of this text. O(bytes), as are the others.
  explicit NumberWords(std::string_view text);

  // The text with a number for each word outside of strings; ValueOf says what such a number stands for.
  std::string AsNumbers(std::string_view text) const { return Replaced(text, ""); }
  std::optional<double> ValueOf(std::string_view number) const;

  // The text with a string for each word, for a file that is changed and written again; WithWords undoes it.
  std::string AsStrings(std::string_view text) const { return Replaced(text, "\""); }
  std::string WithWords(std::string text) const;

 private:
  struct Word {
    std::string_view text;
    double value;
    std::string stand_in;
  };

  std::string Replaced(std::string_view text, std::string_view quote) const;

  std::array<Word, 3> words_;
};

}  // namespace dunlin::engine
