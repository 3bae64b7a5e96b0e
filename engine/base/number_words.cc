// SPDX-License-Identifier: Apache-2.0
#include "engine/base/number_words.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {

// A stand-in has more zeros than follow each other anywhere in the text.
NumberWords::NumberWords(std::string_view text) {
  size_t longest = 0;
  size_t run = 0;
  for (const char c : text) {
    run = c == '0' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const auto zeros = [longest](size_t more) { return absl::StrCat("0.", std::string(longest + more, '0')); };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  words_ = {{{"-Infinity", -kInfinity, zeros(1)},
             {"Infinity", kInfinity, zeros(2)},
             {"NaN", std::numeric_limits<double>::quiet_NaN(), zeros(3)}}};
}

std::optional<double> NumberWords::ValueOf(std::string_view number) const {
  const auto* word =
      std::find_if(words_.begin(), words_.end(), [number](const Word& one) { return one.stand_in == number; });
  if (word == words_.end()) return std::nullopt;
  return word->value;
}

std::string NumberWords::WithWords(std::string text) const {
  for (const Word& word : words_) {
    absl::StrReplaceAll({{absl::StrCat("\"", word.stand_in, "\""), AbslView(word.text)}}, &text);
  }
  return text;
}

std::string NumberWords::Replaced(std::string_view text, std::string_view quote) const {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (in_string && text[at] == '\\' && at + 1 < text.size()) {
      out.append(text.substr(at++, 2));
      continue;
    }
    if (text[at] == '"') in_string = !in_string;
    const auto is_here = [rest = text.substr(at)](const Word& one) { return rest.starts_with(one.text); };
    const auto* word = in_string ? words_.end() : std::find_if(words_.begin(), words_.end(), is_here);
    if (word == words_.end()) {
      out.push_back(text[at]);
      continue;
    }
    // Blanks, so that it does not become a part of a number next to it.
    absl::StrAppend(&out, " ", AbslView(quote), word->stand_in, AbslView(quote), " ");
    at += word->text.size() - 1;
  }
  return out;
}

}  // namespace dunlin::engine
