// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/xml_calls.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "engine/base/string_view.h"
#include "text/chat_output/json_scanner.h"

namespace dunlin::text {
namespace {

constexpr size_t kMaxXmlNameBytes = 256;
constexpr std::string_view kParameter = "<parameter=";
constexpr std::string_view kEndParameter = "</parameter>";
constexpr std::string_view kEndFunction = "</function>";
// The line break before the end belongs to it.
constexpr std::array<std::string_view, 2> kValueEnds = {"\n</parameter>", kEndParameter};

class XmlCall final : public CallReader {
 public:
  XmlCall(bool in_function, const ToolSet* tools)
      : tools_(tools), state_(in_function ? State::kName : State::kFunction) {}

  Scan Take(char c, CallWriter* calls) override {
    switch (state_) {
      case State::kFunction:
        return TakeTag(c);
      case State::kName:
        if (c != '>') return TakeName(c, &function_);
        return calls->Name(function_) ? Go(State::kTag) : Scan::kInvalid;
      case State::kTag:
        return TakeTag(c, calls);
      case State::kKey:
        if (c != '>') return TakeName(c, &key_);
        return BeginValue(calls) ? Go(State::kValue) : Scan::kInvalid;
      case State::kValue:
        return TakeValue(c, calls);
    }
    return Scan::kInvalid;
  }
  bool MayEnd() const override { return false; }

 private:
  enum class State : uint8_t { kFunction, kName, kTag, kKey, kValue };
  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }
  static Scan TakeName(char c, std::string* name) {
    if (c == '\n' || c == '<' || name->size() >= kMaxXmlNameBytes) return Scan::kInvalid;
    name->push_back(c);
    return Scan::kMore;
  }

  // White space and <function=.
  Scan TakeTag(char c) {
    if (tag_.empty() && IsJsonSpace(c)) return Scan::kMore;
    tag_.push_back(c);
    if (!absl::StartsWith("<function=", tag_)) return Scan::kInvalid;
    if (tag_ != "<function=") return Scan::kMore;
    tag_.clear();
    return Go(State::kName);
  }

  // White space and <parameter= or </function>.
  Scan TakeTag(char c, CallWriter* calls) {
    if (tag_.empty() && IsJsonSpace(c)) return Scan::kMore;
    tag_.push_back(c);
    if (tag_ == kEndFunction) {
      calls->Arguments(keys_.empty() ? "{}" : "}");
      calls->End();
      return Scan::kDone;
    }
    if (tag_ == kParameter) {
      tag_.clear();
      key_.clear();
      return Go(State::kKey);
    }
    const bool part =
        absl::StartsWith(engine::AbslView(kParameter), tag_) || absl::StartsWith(engine::AbslView(kEndFunction), tag_);
    return part ? Scan::kMore : Scan::kInvalid;
  }

  // False: the parameter is there already.
  bool BeginValue(CallWriter* calls) {
    const bool first = keys_.empty();
    if (!keys_.insert(key_).second) return false;
    calls->Arguments((first ? "{" : ", ") + JsonQuoted(key_) + ": ");
    const ParameterText text = tools_->TextOf(function_, key_);
    is_string_ = text == ParameterText::kText;
    json_.reset();
    if (text == ParameterText::kJson) json_.emplace();
    if (is_string_) calls->Arguments("\"");
    value_.clear();
    line_break_ = true;
    return true;
  }

  Scan TakeValue(char c, CallWriter* calls) {
    if (std::exchange(line_break_, false) && c == '\n') return Scan::kMore;
    value_.push_back(c);
    if (is_string_) return TakeString(calls);
    if (IsInsideJson(c) || !absl::EndsWith(value_, engine::AbslView(kEndParameter))) return Scan::kMore;
    value_.resize(value_.size() - kEndParameter.size());
    if (absl::EndsWith(value_, "\n")) value_.pop_back();
    calls->Arguments(tools_->ToJson(function_, key_, value_));
    return Go(State::kTag);
  }

  // A tag inside a value that must be JSON is a part of one of its strings.
  bool IsInsideJson(char c) {
    if (json_.has_value() && json_->Take(c) != Scan::kMore) json_.reset();
    return json_.has_value();
  }

  // Passes on what cannot be part of the value's end.
  Scan TakeString(CallWriter* calls) {
    const MarkerMatch match = FindMarker(value_, kValueEnds);
    std::string escaped;
    AppendJsonEscaped(std::string_view(value_).substr(0, match.position), &escaped);
    calls->Arguments(escaped);
    value_.erase(0, match.position);
    if (!match.marker.has_value()) return Scan::kMore;
    calls->Arguments("\"");
    tag_.clear();
    return Go(State::kTag);
  }

  const ToolSet* const tools_;
  State state_;
  std::string tag_;
  std::string function_;
  std::string key_;
  std::set<std::string> keys_;
  bool is_string_ = false;
  std::optional<JsonScanner> json_;  // of a value that must be JSON, until it is complete or no JSON
  bool line_break_ = false;          // the next byte may be the one before the value
  std::string value_;                // what is not yet passed on
};

}  // namespace

bool IsXmlName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxXmlNameBytes && name.find_first_of("<>\n") == std::string_view::npos;
}

std::unique_ptr<CallReader> MakeXmlCall(bool in_function, const ToolSet* tools) {
  return std::make_unique<XmlCall>(in_function, tools);
}

}  // namespace dunlin::text
