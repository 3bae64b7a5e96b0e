// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/json_scanner.h"

#include "absl/strings/ascii.h"

namespace dunlin::text {

bool JsonScanner::NumberEnds() const {
  return state_ == State::kZero || state_ == State::kDigits || state_ == State::kFraction ||
         state_ == State::kExponentDigits;
}

Scan JsonScanner::EndValue() {
  if (containers_.empty()) return Scan::kDone;
  return Go(State::kNext);
}

Scan JsonScanner::Close(bool object) {
  if (containers_.empty() || containers_.back() != object) return Scan::kInvalid;
  containers_.pop_back();
  return EndValue();
}

Scan JsonScanner::BeginKey(char c) {
  if (IsJsonSpace(c)) return Scan::kMore;
  if (c == '}' && state_ == State::kKeyOrEnd) return Close(true);
  if (c != '"') return Scan::kInvalid;
  key_ = true;
  return Go(State::kString);
}

Scan JsonScanner::BeginValue(char c) {
  if (IsJsonSpace(c)) return Scan::kMore;
  if (c == ']' && state_ == State::kValueOrEnd) return Close(false);
  key_ = false;
  switch (c) {
    case '{':
    case '[':
      if (containers_.size() >= kMaxDepth) return Scan::kInvalid;
      containers_.push_back(c == '{');
      return Go(c == '{' ? State::kKeyOrEnd : State::kValueOrEnd);
    case '"':
      return Go(State::kString);
    case '-':
      return Go(State::kMinus);
    case '0':
      return Go(State::kZero);
    case 't':
    case 'f':
    case 'n':
      word_ = Literal(c == 't' ? "true" : c == 'f' ? "false" : "null");
      word_.Take(c);
      return Go(State::kWord);
    default:
      return absl::ascii_isdigit(static_cast<unsigned char>(c)) ? Go(State::kDigits) : Scan::kInvalid;
  }
}

Scan JsonScanner::TakeNext(char c) {
  if (IsJsonSpace(c)) return Scan::kMore;
  if (c == ',') return Go(containers_.back() ? State::kKey : State::kValue);
  if (c == '}' || c == ']') return Close(c == '}');
  return Scan::kInvalid;
}

Scan JsonScanner::TakeString(char c) {
  if (c == '"') return key_ ? Go(State::kColon) : EndValue();
  if (c == '\\') return Go(State::kEscape);
  return static_cast<unsigned char>(c) < 0x20 ? Scan::kInvalid : Scan::kMore;
}

Scan JsonScanner::TakeEscape(char c) {
  if (c == 'u') {
    hex_digits_ = 0;
    return Go(State::kHex);
  }
  return std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos ? Scan::kInvalid : Go(State::kString);
}

Scan JsonScanner::TakeNumber(char c) {
  const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
  switch (state_) {
    case State::kMinus:
      if (c == '0') return Go(State::kZero);
      return digit ? Go(State::kDigits) : Scan::kInvalid;
    case State::kPoint:
      return digit ? Go(State::kFraction) : Scan::kInvalid;
    case State::kExponent:
      if (c == '+' || c == '-') return Go(State::kExponentSign);
      return digit ? Go(State::kExponentDigits) : Scan::kInvalid;
    case State::kExponentSign:
      return digit ? Go(State::kExponentDigits) : Scan::kInvalid;
    default:
      break;
  }
  if (digit && state_ != State::kZero) return Scan::kMore;
  const bool integer = state_ == State::kZero || state_ == State::kDigits;
  if (c == '.' && integer) return Go(State::kPoint);
  if ((c == 'e' || c == 'E') && state_ != State::kExponentDigits) return Go(State::kExponent);
  if (containers_.empty()) return Scan::kDoneBefore;
  state_ = State::kNext;
  return TakeNext(c);
}

Scan JsonScanner::Take(char c) {
  switch (state_) {
    case State::kValue:
    case State::kValueOrEnd:
      return BeginValue(c);
    case State::kKeyOrEnd:
    case State::kKey:
      return BeginKey(c);
    case State::kColon:
      if (IsJsonSpace(c)) return Scan::kMore;
      return c == ':' ? Go(State::kValue) : Scan::kInvalid;
    case State::kNext:
      return TakeNext(c);
    case State::kString:
      return TakeString(c);
    case State::kEscape:
      return TakeEscape(c);
    case State::kHex:
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return Scan::kInvalid;
      return ++hex_digits_ == 4 ? Go(State::kString) : Scan::kMore;
    case State::kWord: {
      const Scan scan = word_.Take(c);
      return scan == Scan::kDone ? EndValue() : scan;
    }
    default:
      return TakeNumber(c);
  }
}

bool IsJson(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const Scan scan = scanner.Take(text[i]);
    if (scan == Scan::kDone) return i + 1 == text.size();
    if (scan != Scan::kMore) return false;
  }
  return scanner.ends_here();
}

}  // namespace dunlin::text
