// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/pythonic_calls.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "text/chat_output/python_literal.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {
namespace {

constexpr size_t kMaxPythonNameBytes = 256;

bool IsNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class PythonicCalls final : public CallReader {
 public:
  // end: of calls on lines; "": they are a list.
  explicit PythonicCalls(std::string_view end)
      : lines_(!end.empty()), end_(lines_ ? end : "]"), state_(lines_ ? State::kCall : State::kList) {}

  Scan Take(char c, CallWriter* calls) override {
    if (state_ == State::kValue) return TakeValue(c, calls);
    if (state_ == State::kName) return TakeName(c, calls);
    if (state_ == State::kKey && !name_.empty()) return TakeKey(c, calls);
    if (state_ == State::kEnd) return end_.Take(c);
    if (IsJsonSpace(c)) return Scan::kMore;
    switch (state_) {
      case State::kList:
        return c == '[' ? Go(State::kCall) : Scan::kInvalid;
      case State::kCall:
        name_.clear();
        state_ = State::kName;
        return TakeName(c, calls);
      case State::kKey:
        if (c == ')') return EndCall(calls);
        return TakeKey(c, calls);
      case State::kEquals:
        return c == '=' ? BeginValue(calls) : Scan::kInvalid;
      case State::kNextKey:
        if (c == ',') return Go(State::kKey);
        return c == ')' ? EndCall(calls) : Scan::kInvalid;
      case State::kNextCall:
        return TakeNextCall(c, calls);
      default:
        return Scan::kInvalid;
    }
  }
  bool MayEnd() const override { return state_ == State::kNextCall; }

 private:
  enum class State : uint8_t { kList, kCall, kName, kKey, kEquals, kValue, kNextKey, kNextCall, kEnd };
  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }

  Scan TakeName(char c, CallWriter* calls) {
    if (IsNameByte(c) && name_.size() < kMaxPythonNameBytes) {
      name_.push_back(c);
      return Scan::kMore;
    }
    if (c != '(' || !calls->Name(name_)) return Scan::kInvalid;
    name_.clear();
    keys_.clear();
    return Go(State::kKey);
  }

  Scan TakeKey(char c, CallWriter* calls) {
    if (IsNameByte(c) && name_.size() < kMaxPythonNameBytes) {
      name_.push_back(c);
      return Scan::kMore;
    }
    if (name_.empty()) return Scan::kInvalid;
    if (c == '=') return BeginValue(calls);
    return IsJsonSpace(c) ? Go(State::kEquals) : Scan::kInvalid;
  }

  Scan BeginValue(CallWriter* calls) {
    const std::string before = keys_.empty() ? "{" : ", ";
    if (!keys_.insert(name_).second) return Scan::kInvalid;
    calls->Arguments(before + JsonQuoted(name_) + ": ");
    name_.clear();
    value_ = PythonLiteral();
    return Go(State::kValue);
  }

  Scan TakeValue(char c, CallWriter* calls) {
    std::string json;
    const Scan scan = value_.Take(c, &json);
    if (scan == Scan::kInvalid) return scan;
    calls->Arguments(json);
    if (scan == Scan::kMore) return scan;
    state_ = State::kNextKey;
    return scan == Scan::kDoneBefore ? Take(c, calls) : Scan::kMore;
  }

  Scan EndCall(CallWriter* calls) {
    calls->Arguments(keys_.empty() ? "{}" : "}");
    calls->End();
    return Go(State::kNextCall);
  }

  // Behind a call.
  Scan TakeNextCall(char c, CallWriter* calls) {
    if (lines_ && IsNameByte(c)) {
      state_ = State::kName;
      return TakeName(c, calls);
    }
    if (!lines_ && c == ',') return Go(State::kCall);
    state_ = State::kEnd;
    return end_.Take(c);
  }

  const bool lines_;
  Literal end_;  // of all calls
  State state_;
  std::string name_;  // of the function, or of a parameter, as far as read
  std::set<std::string> keys_;
  PythonLiteral value_;
};

}  // namespace

bool IsPythonicName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxPythonNameBytes && std::all_of(name.begin(), name.end(), IsNameByte);
}

std::unique_ptr<CallReader> MakePythonicCalls() {
  return std::make_unique<PythonicCalls>("");
}

std::unique_ptr<CallReader> MakePythonicLines(std::string_view end) {
  return std::make_unique<PythonicCalls>(end);
}

}  // namespace dunlin::text
