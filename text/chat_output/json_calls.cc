// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/json_calls.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace dunlin::text {
namespace {

constexpr size_t kMaxKeyBytes = 256;

// The text of a JSON string with its quotes.
std::string Unquoted(const std::string& json) {
  const nlohmann::json value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : std::string();
}

class JsonCalls final : public CallReader {
 public:
  explicit JsonCalls(bool semicolons) : semicolons_(semicolons) {}
  Scan Take(char c, CallWriter* calls) override {
    switch (state_) {
      case State::kStart:
        if (IsJsonSpace(c)) return Scan::kMore;
        if (c == '[') {
          list_ = true;
          return Go(State::kObjectOrEnd);
        }
        return BeginObject(c, calls);
      case State::kObjectOrEnd:
        if (c == ']') return Scan::kDone;
        [[fallthrough]];
      case State::kObject:
        return IsJsonSpace(c) ? Scan::kMore : BeginObject(c, calls);
      case State::kInObject: {
        const Scan scan = object_.Take(c, calls);
        if (scan == Scan::kDone && (list_ || semicolons_)) return Go(State::kNext);
        return scan;
      }
      case State::kNext:
        if (IsJsonSpace(c)) return Scan::kMore;
        if (list_ && c == ']') return Scan::kDone;
        return c == (list_ ? ',' : ';') ? Go(State::kObject) : Scan::kInvalid;
    }
    return Scan::kInvalid;
  }
  // A list without its end is one that the model broke off after a call.
  bool MayEnd() const override { return state_ == State::kNext; }

 private:
  enum class State : uint8_t { kStart, kObjectOrEnd, kObject, kInObject, kNext };
  Scan BeginObject(char c, CallWriter* calls) {
    object_ = CallObject();
    state_ = State::kInObject;
    return object_.Take(c, calls);
  }
  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }

  const bool semicolons_;
  State state_ = State::kStart;
  bool list_ = false;
  CallObject object_;
};

}  // namespace

Scan CallObject::Take(char c, CallWriter* calls) {
  switch (state_) {
    case State::kOpen:
      return c == '{' ? Go(State::kFirstKey) : Scan::kInvalid;
    case State::kFirstKey:
    case State::kKey:
      if (IsJsonSpace(c)) return Scan::kMore;
      if (c != '"') return Scan::kInvalid;
      text_.clear();
      value_.emplace();
      state_ = State::kInKey;
      [[fallthrough]];
    case State::kInKey: {
      const Scan scan = value_->Take(c);
      if (scan == Scan::kInvalid || text_.size() >= kMaxKeyBytes) return Scan::kInvalid;
      text_.push_back(c);
      if (scan == Scan::kMore) return scan;
      return EndKey() ? Go(State::kColon) : Scan::kInvalid;
    }
    case State::kColon:
      if (IsJsonSpace(c)) return Scan::kMore;
      if (c != ':') return Scan::kInvalid;
      value_.reset();
      return Go(State::kValue);
    case State::kValue:
      return value_.has_value() ? TakeValue(c, calls) : BeginValue(c, calls);
    case State::kNext:
      return TakeNext(c, calls);
  }
  return Scan::kInvalid;
}

// False: the member is there already.
bool CallObject::EndKey() {
  const std::string key = Unquoted(text_);
  text_.clear();
  member_ = Member::kOther;
  if (key == "name" || key == "tool_name") {
    member_ = Member::kName;
    return !std::exchange(has_name_, true);
  }
  if (key == "arguments" || key == "parameters") {
    member_ = Member::kArguments;
    return !std::exchange(has_arguments_, true);
  }
  return true;
}

Scan CallObject::BeginValue(char c, CallWriter* calls) {
  if (IsJsonSpace(c)) return Scan::kMore;
  if (member_ == Member::kName && c != '"') return Scan::kInvalid;
  if (member_ == Member::kArguments && c != '{') return Scan::kInvalid;
  value_.emplace();
  return TakeValue(c, calls);
}

Scan CallObject::TakeValue(char c, CallWriter* calls) {
  const Scan scan = value_->Take(c);
  if (scan == Scan::kInvalid) return scan;
  if (scan != Scan::kDoneBefore) {
    if (member_ == Member::kName) text_.push_back(c);
    if (member_ == Member::kArguments) calls->Arguments(std::string_view(&c, 1));
  }
  if (scan == Scan::kMore) return scan;
  if (member_ == Member::kName && !calls->Name(Unquoted(text_))) return Scan::kInvalid;
  state_ = State::kNext;
  return scan == Scan::kDoneBefore ? TakeNext(c, calls) : Scan::kMore;
}

Scan CallObject::TakeNext(char c, CallWriter* calls) {
  if (IsJsonSpace(c)) return Scan::kMore;
  if (c == ',') return Go(State::kKey);
  if (c != '}' || !has_name_) return Scan::kInvalid;
  calls->End();
  return Scan::kDone;
}

std::unique_ptr<CallReader> MakeJsonCalls(bool semicolons) {
  return std::make_unique<JsonCalls>(semicolons);
}

}  // namespace dunlin::text
