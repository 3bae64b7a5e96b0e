// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/python_literal.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "text/chat_output/json_scanner.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {
namespace {

constexpr uint32_t kMaxCharacter = 0x10FFFF;

// A character as a part of a JSON string; a surrogate half stays what it is.
void AppendCharacter(uint32_t code, std::string* json) {
  if (code >= 0x10000) {
    const uint32_t rest = code - 0x10000;
    absl::StrAppendFormat(json, "\\u%04x\\u%04x", 0xD800 + (rest >> 10U), 0xDC00 + (rest & 0x3FFU));
  } else if (code < 0x80) {
    const char c = static_cast<char>(code);
    AppendJsonEscaped(std::string_view(&c, 1), json);
  } else {
    absl::StrAppendFormat(json, "\\u%04x", code);
  }
}

}  // namespace

bool IsPythonWordByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.' || c == '_';
}

std::string PythonWordInJson(std::string word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  if (word.empty()) return "";
  if (word[0] == '+') word.erase(0, 1);
  const size_t digits = !word.empty() && word[0] == '-' ? 1 : 0;
  if (word.size() > digits && word[digits] == '.') word.insert(digits, "0");
  const size_t point = word.find('.');
  const bool bare_point =
      point != std::string::npos &&
      (point + 1 == word.size() || !absl::ascii_isdigit(static_cast<unsigned char>(word[point + 1])));
  if (bare_point) word.insert(point + 1, "0");
  return IsJson(word) ? word : "";
}

Scan PythonLiteral::EndValue() {
  if (closers_.empty()) return Scan::kDone;
  may_close_ = false;
  return Go(State::kNext);
}

Scan PythonLiteral::Close(std::string* json) {
  json->push_back(closers_.back() == '}' ? '}' : ']');
  closers_.pop_back();
  return EndValue();
}

Scan PythonLiteral::BeginValue(char c, std::string* json) {
  if (IsJsonSpace(c)) return Scan::kMore;
  if (may_close_ && c == closers_.back()) return Close(json);
  if (comma_) json->append(", ");
  comma_ = false;
  may_close_ = false;
  key_ = !closers_.empty() && closers_.back() == '}' && state_ == State::kValue && !key_;
  if (c == '"' || c == '\'') {
    quote_ = c;
    json->push_back('"');
    return Go(State::kString);
  }
  if (key_) return Scan::kInvalid;
  if (c == '[' || c == '(' || c == '{') {
    if (closers_.size() >= kMaxDepth) return Scan::kInvalid;
    closers_.push_back(c == '[' ? ']' : c == '(' ? ')' : '}');
    json->push_back(c == '{' ? '{' : '[');
    may_close_ = true;
    return Scan::kMore;
  }
  if (!IsPythonWordByte(c)) return Scan::kInvalid;
  word_.assign(1, c);
  return Go(State::kWord);
}

Scan PythonLiteral::TakeNext(char c, std::string* json) {
  if (IsJsonSpace(c)) return Scan::kMore;
  if (c == closers_.back()) return Close(json);
  if (c != ',') return Scan::kInvalid;
  comma_ = true;
  may_close_ = true;
  key_ = false;
  return Go(State::kValue);
}

Scan PythonLiteral::TakeString(char c, std::string* json) {
  if (c == quote_) {
    json->push_back('"');
    return key_ ? Go(State::kColon) : EndValue();
  }
  if (c == '\\') return Go(State::kEscape);
  if (c == '\n') return Scan::kInvalid;
  AppendJsonEscaped(std::string_view(&c, 1), json);
  return Scan::kMore;
}

Scan PythonLiteral::TakeEscape(char c, std::string* json) {
  static constexpr std::string_view kNames = "abfnrtv'\"\\";
  static constexpr std::string_view kCharacters = "\a\b\f\n\r\t\v'\"\\";
  state_ = State::kString;
  if (c == '\n') return Scan::kMore;
  if (const size_t at = kNames.find(c); at != std::string_view::npos) {
    AppendJsonEscaped(kCharacters.substr(at, 1), json);
    return Scan::kMore;
  }
  code_.clear();
  if (c == 'x' || c == 'u' || c == 'U') {
    code_digits_ = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    return Go(State::kCode);
  }
  if (c >= '0' && c <= '7') {
    code_.push_back(c);
    return Go(State::kOctal);
  }
  // The backslash of an unknown escape is itself.
  json->append("\\\\");
  return TakeString(c, json);
}

Scan PythonLiteral::TakeCode(char c, std::string* json) {
  if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return Scan::kInvalid;
  code_.push_back(c);
  if (code_.size() < code_digits_) return Scan::kMore;
  uint32_t code = 0;
  if (!absl::SimpleHexAtoi(code_, &code) || code > kMaxCharacter) return Scan::kInvalid;
  AppendCharacter(code, json);
  return Go(State::kString);
}

Scan PythonLiteral::EndWord(char c, std::string* json) {
  const std::string value = PythonWordInJson(word_);
  if (value.empty()) return Scan::kInvalid;
  json->append(value);
  if (EndValue() == Scan::kDone) return Scan::kDoneBefore;
  return TakeNext(c, json);
}

Scan PythonLiteral::Take(char c, std::string* json) {
  switch (state_) {
    case State::kValue:
      return BeginValue(c, json);
    case State::kNext:
      return TakeNext(c, json);
    case State::kColon:
      if (IsJsonSpace(c)) return Scan::kMore;
      if (c != ':') return Scan::kInvalid;
      json->append(": ");
      return Go(State::kValue);
    case State::kString:
      return TakeString(c, json);
    case State::kEscape:
      return TakeEscape(c, json);
    case State::kCode:
      return TakeCode(c, json);
    case State::kOctal:
      if (c >= '0' && c <= '7' && code_.size() < 3) {
        code_.push_back(c);
        return Scan::kMore;
      }
      AppendCharacter(static_cast<uint32_t>(std::stoul(code_, nullptr, 8)), json);
      state_ = State::kString;
      return TakeString(c, json);
    case State::kWord:
      if (!IsPythonWordByte(c)) return EndWord(c, json);
      word_.push_back(c);
      return word_.size() > kMaxPythonWordBytes ? Scan::kInvalid : Scan::kMore;
  }
  return Scan::kInvalid;
}

}  // namespace dunlin::text
