// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/gemma_calls.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "engine/base/string_view.h"
#include "text/chat_output/python_literal.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {
namespace {

constexpr size_t kMaxGemmaNameBytes = 256;
constexpr size_t kMaxGemmaDepth = 64;
constexpr std::string_view kCallPrefix = "call:";

bool IsGemmaKeyByte(char c) {
  return static_cast<unsigned char>(c) > 0x20 && c != 0x7F &&
         std::string_view(":,{}[]()<>|\"'`").find(c) == std::string_view::npos;
}

// The arguments, from their '{' on, as JSON.
class GemmaObject {
 public:
  explicit GemmaObject(std::string_view quote) : quote_(quote) {}

  // Appends to *json what the byte adds. kDoneBefore is not returned.
  Scan Take(char c, std::string* json) {
    switch (state_) {
      case State::kKey:
        return TakeKey(c, json);
      case State::kValue:
        return BeginValue(c, json);
      case State::kQuote:
      case State::kText:
        return TakeQuoted(c, json);
      case State::kWord:
        if (!IsPythonWordByte(c)) return EndWord(c, json);
        word_.push_back(c);
        return word_.size() > kMaxPythonWordBytes ? Scan::kInvalid : Scan::kMore;
      case State::kNext:
        return TakeNext(c, json);
    }
    return Scan::kInvalid;
  }

 private:
  enum class State : uint8_t { kKey, kValue, kQuote, kText, kWord, kNext };
  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }
  bool in_object() const { return closers_.empty() || closers_.back() == '}'; }

  Scan Open(char closer, std::string* json) {
    if (closers_.size() >= kMaxGemmaDepth) return Scan::kInvalid;
    json->push_back(closer == '}' ? '{' : '[');
    closers_.push_back(closer);
    may_close_ = true;
    return Go(closer == '}' ? State::kKey : State::kValue);
  }
  Scan Close(std::string* json) {
    json->push_back(closers_.back());
    closers_.pop_back();
    may_close_ = false;
    state_ = State::kNext;
    return closers_.empty() ? Scan::kDone : Scan::kMore;
  }
  // Before a key, or a value of a list.
  void Separate(std::string* json) {
    if (!std::exchange(may_close_, false)) json->append(", ");
  }

  // The object's '{' before the first one.
  Scan TakeKey(char c, std::string* json) {
    if (closers_.empty()) return c == '{' ? Open('}', json) : Scan::kInvalid;
    if (key_.empty() && IsJsonSpace(c)) return Scan::kMore;
    if (key_.empty() && may_close_ && c == '}') return Close(json);
    if (c == ':' && !key_.empty()) {
      if (closers_.size() == 1 && !keys_.insert(key_).second) return Scan::kInvalid;
      Separate(json);
      json->append(JsonQuoted(key_) + ": ");
      key_.clear();
      return Go(State::kValue);
    }
    if (!IsGemmaKeyByte(c) || key_.size() >= kMaxGemmaNameBytes) return Scan::kInvalid;
    key_.push_back(c);
    return Scan::kMore;
  }

  Scan BeginValue(char c, std::string* json) {
    if (IsJsonSpace(c)) return Scan::kMore;
    if (!in_object()) {
      if (may_close_ && c == ']') return Close(json);
      Separate(json);
    }
    if (c == '{' || c == '[') return Open(c == '{' ? '}' : ']', json);
    if (c == quote_[0]) {
      text_.assign(1, c);
      return Go(State::kQuote);
    }
    if (!IsPythonWordByte(c)) return Scan::kInvalid;
    word_.assign(1, c);
    return Go(State::kWord);
  }

  // The mark before a text, then the text up to the next one.
  Scan TakeQuoted(char c, std::string* json) {
    text_.push_back(c);
    if (state_ == State::kQuote) {
      if (!absl::StartsWith(engine::AbslView(quote_), text_)) return Scan::kInvalid;
      if (text_.size() < quote_.size()) return Scan::kMore;
      text_.clear();
      json->push_back('"');
      return Go(State::kText);
    }
    const MarkerMatch match = FindMarker(text_, {&quote_, 1});
    AppendJsonEscaped(std::string_view(text_).substr(0, match.position), json);
    text_.erase(0, match.position);
    if (!match.marker.has_value()) return Scan::kMore;
    json->push_back('"');
    return Go(State::kNext);
  }

  Scan EndWord(char c, std::string* json) {
    const std::string value = PythonWordInJson(std::move(word_));
    if (value.empty()) return Scan::kInvalid;
    json->append(value);
    state_ = State::kNext;
    return TakeNext(c, json);
  }

  Scan TakeNext(char c, std::string* json) {
    if (IsJsonSpace(c)) return Scan::kMore;
    if (c == closers_.back()) return Close(json);
    if (c != ',') return Scan::kInvalid;
    return Go(in_object() ? State::kKey : State::kValue);
  }

  const std::string_view quote_;
  State state_ = State::kKey;
  std::vector<char> closers_;   // of the open containers
  bool may_close_ = false;      // nothing stands in the innermost one yet
  std::string key_;             // as far as read
  std::set<std::string> keys_;  // of the arguments themselves
  std::string text_;            // of a mark or a text, what is not yet decided
  std::string word_;
};

class GemmaCall final : public CallReader {
 public:
  explicit GemmaCall(std::string_view quote) : object_(quote) {}

  Scan Take(char c, CallWriter* calls) override {
    if (!named_ && c != '{') {
      head_.push_back(c);
      return head_.size() > kMaxGemmaNameBytes ? Scan::kInvalid : Scan::kMore;
    }
    if (!std::exchange(named_, true) && !EndHead(calls)) return Scan::kInvalid;
    std::string json;
    const Scan scan = object_.Take(c, &json);
    if (scan == Scan::kInvalid) return scan;
    calls->Arguments(json);
    if (scan == Scan::kDone) calls->End();
    return scan;
  }
  bool MayEnd() const override { return false; }

 private:
  bool EndHead(CallWriter* calls) const {
    absl::string_view head = absl::StripAsciiWhitespace(head_);
    if (!absl::ConsumePrefix(&head, engine::AbslView(kCallPrefix))) return false;
    const std::string_view name = engine::StdView(absl::StripLeadingAsciiWhitespace(head));
    return name.find_first_of(" \t\r\n<>\"") == std::string_view::npos && calls->Name(name);
  }

  bool named_ = false;
  std::string head_;  // before the arguments
  GemmaObject object_;
};

}  // namespace

std::unique_ptr<CallReader> MakeGemmaCall(const GemmaMarks& marks) {
  return std::make_unique<GemmaCall>(marks.quote);
}

bool IsGemmaKey(std::string_view name) {
  return !name.empty() && name.size() <= kMaxGemmaNameBytes && std::all_of(name.begin(), name.end(), IsGemmaKeyByte);
}

}  // namespace dunlin::text
