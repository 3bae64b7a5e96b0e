// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/tagged_calls.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "engine/base/string_view.h"
#include "text/chat_output/json_scanner.h"

namespace dunlin::text {
namespace {

constexpr std::string_view kGlmValue[] = {"<arg_value>"};
constexpr std::string_view kDsmlValue[] = {"string=\"true\">", "string=\"false\">"};

class TaggedCall final : public CallReader {
 public:
  TaggedCall(const CallTags& tags, bool in_call, const ToolSet* tools)
      : tags_(tags),
        tools_(tools),
        value_ends_{"\n" + std::string(tags.value_end), std::string(tags.value_end)},
        state_(in_call || tags.call.empty() ? State::kName : State::kCall) {
    if (tags.line_breaks) value_end_marks_.emplace_back(value_ends_[0]);
    value_end_marks_.emplace_back(value_ends_[1]);
  }

  Scan Take(char c, CallWriter* calls) override {
    switch (state_) {
      case State::kCall: {
        const Scan scan = tag_.Take(c, {&tags_.call, 1});
        return scan == Scan::kDone ? Go(State::kName) : scan;
      }
      case State::kName:
        return TakeName(c, calls);
      case State::kTag:
        return TakeTag(c, calls);
      case State::kKey:
        if (!TakeUntil(tags_.key_end, c, &key_)) return MayFollow(key_, tags_.key_end);
        if (key_.size() > kMaxTagNameBytes || !keys_.insert(key_).second) return Scan::kInvalid;
        if (!tags_.value.empty()) return Go(State::kValueTag);
        return BeginValue(tools_->TextOf(function_, key_), calls);
      case State::kValueTag: {
        const Scan scan = tag_.Take(c, tags_.value);
        if (scan != Scan::kDone) return scan;
        if (tags_.value.size() == 1) return BeginValue(tools_->TextOf(function_, key_), calls);
        return BeginValue(tag_.found() == 0 ? ParameterText::kText : ParameterText::kJson, calls);
      }
      case State::kValue:
        return TakeValue(c, calls);
    }
    return Scan::kInvalid;
  }
  bool MayEnd() const override { return false; }

 private:
  enum class State : uint8_t { kCall, kName, kTag, kKey, kValueTag, kValue };
  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }
  // Of a name whose end is not there yet: kMore or kInvalid. A '<' can only begin `end`.
  static Scan MayFollow(std::string_view name, std::string_view end) {
    const size_t at = name.find_first_of("\n<");
    if (at != std::string_view::npos && name.substr(at) != end.substr(0, name.size() - at)) return Scan::kInvalid;
    return name.size() <= kMaxTagNameBytes + end.size() ? Scan::kMore : Scan::kInvalid;
  }
  // Collects up to `end`, which is not part of it. True: `end` is there.
  static bool TakeUntil(std::string_view end, char c, std::string* text) {
    text->push_back(c);
    if (!absl::EndsWith(*text, engine::AbslView(end))) return false;
    text->resize(text->size() - end.size());
    return true;
  }

  Scan TakeName(char c, CallWriter* calls) {
    if (!tags_.name_end.empty()) {
      if (!TakeUntil(tags_.name_end, c, &function_)) return MayFollow(function_, tags_.name_end);
      if (tags_.doubled_names) function_ = KnownName(function_);
      return calls->Name(function_) ? Go(State::kTag) : Scan::kInvalid;
    }
    if (c != '\n' && c != '<') {
      function_.push_back(c);
      return MayFollow(function_, "");
    }
    function_ = std::string(absl::StripAsciiWhitespace(function_));
    if (function_.empty() && c == '\n') return Scan::kMore;
    const bool is_name = function_.find_first_of(" \t\r\"{") == std::string::npos;  // JSON is none
    if (!is_name || !calls->Name(function_)) return Scan::kInvalid;
    state_ = State::kTag;
    return TakeTag(c, calls);
  }

  std::string KnownName(const std::string& name) const {
    const size_t half = name.size() / 2;
    const bool doubled = name.size() % 2 == 1 && name[half] == '.' && name.compare(half + 1, half, name, 0, half) == 0;
    if (!doubled || tools_->Find(name) != nullptr) return name;
    const std::string single = name.substr(0, half);
    return tools_->Find(single) == nullptr ? name : single;
  }

  // A further parameter, or the end.
  Scan TakeTag(char c, CallWriter* calls) {
    const std::array<std::string_view, 2> tags = {tags_.key, tags_.call_end};
    const Scan scan = tag_.Take(c, tags);
    if (scan != Scan::kDone) return scan;
    if (tag_.found() == 0) {
      key_.clear();
      return Go(State::kKey);
    }
    calls->Arguments(keys_.empty() ? "{}" : "}");
    calls->End();
    return Scan::kDone;
  }

  Scan BeginValue(ParameterText text, CallWriter* calls) {
    calls->Arguments((keys_.size() == 1 ? "{" : ", ") + JsonQuoted(key_) + ": ");
    is_string_ = text == ParameterText::kText;
    json_.reset();
    if (text == ParameterText::kJson) json_.emplace();
    if (is_string_) calls->Arguments("\"");
    value_.clear();
    line_break_ = tags_.line_breaks;
    return Go(State::kValue);
  }

  Scan TakeValue(char c, CallWriter* calls) {
    if (std::exchange(line_break_, false) && c == '\n') return Scan::kMore;
    value_.push_back(c);
    if (is_string_) return TakeString(calls);
    if (IsInsideJson(c) || !absl::EndsWith(value_, engine::AbslView(tags_.value_end))) return Scan::kMore;
    value_.resize(value_.size() - tags_.value_end.size());
    if (tags_.line_breaks && absl::EndsWith(value_, "\n")) value_.pop_back();
    calls->Arguments(tags_.value.size() < 2 ? tools_->ToJson(function_, key_, value_) : JsonOrQuoted(value_));
    return Go(State::kTag);
  }

  // A tag inside a value that must be JSON is a part of one of its strings.
  bool IsInsideJson(char c) {
    if (json_.has_value() && json_->Take(c) != Scan::kMore) json_.reset();
    return json_.has_value();
  }

  // Passes on what cannot be part of the value's end.
  Scan TakeString(CallWriter* calls) {
    const MarkerMatch match = FindMarker(value_, value_end_marks_);
    std::string escaped;
    AppendJsonEscaped(std::string_view(value_).substr(0, match.position), &escaped);
    calls->Arguments(escaped);
    value_.erase(0, match.position);
    if (!match.marker.has_value()) return Scan::kMore;
    calls->Arguments("\"");
    return Go(State::kTag);
  }

  const CallTags& tags_;
  const ToolSet* const tools_;
  const std::array<std::string, 2> value_ends_;    // with and without the line break before it
  std::vector<std::string_view> value_end_marks_;  // those of value_ends_ that count
  State state_;
  NextTag tag_;
  std::string function_;
  std::string key_;
  std::set<std::string> keys_;
  bool is_string_ = false;
  std::optional<JsonScanner> json_;  // of a value that must be JSON, until it is complete or no JSON
  bool line_break_ = false;          // the next byte may be the one before the value
  std::string value_;                // what is not yet passed on
};

}  // namespace

constinit const CallTags kQwenTags = {"<function=", ">", "<parameter=", ">", {}, "</parameter>", "</function>", true};
constinit const CallTags kGlmTags = {"",   "", "<arg_key>", "</arg_key>", kGlmValue, "</arg_value>", "</tool_call>",
                                     false};
constinit const CallTags kHy3Tags = {"<tool_call>", "<tool_sep>",   "<arg_key>",    "</arg_key>",
                                     kGlmValue,     "</arg_value>", "</tool_call>", false};
constinit const CallTags kMinimaxTags = {"<invoke name=\"", "\">", "<parameter name=\"", "\">", {}, "</parameter>",
                                         "</invoke>",       false};
constinit const CallTags kDsmlTags = {
    "<｜DSML｜invoke name=\"", "\">", "<｜DSML｜parameter name=\"", "\"", kDsmlValue, "</｜DSML｜parameter>",
    "</｜DSML｜invoke>",       false};

constinit const CallTags kAtemTags = {"<atem:invoke name=\"",
                                      "\">",
                                      "<atem:parameter name=\"",
                                      "\">",
                                      {},
                                      "</atem:parameter>",
                                      "</atem:invoke>",
                                      false,
                                      true};

std::unique_ptr<CallReader> MakeTaggedCall(const CallTags& tags, bool in_call, const ToolSet* tools) {
  return std::make_unique<TaggedCall>(tags, in_call, tools);
}

bool IsTagName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxTagNameBytes && name.find_first_of("<>\n") == std::string_view::npos;
}

bool IsQuotedTagName(std::string_view name) {
  return IsTagName(name) && name.find('"') == std::string_view::npos;
}

}  // namespace dunlin::text
