// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/minimax_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "text/chat_output/json_scanner.h"
#include "text/chat_output/tagged_calls.h"

namespace dunlin::text {
namespace {

constexpr size_t kMaxMinimaxDepth = 64;

bool IsBlank(std::string_view text) {
  return std::all_of(text.begin(), text.end(), &IsJsonSpace);
}

class MinimaxCall final : public CallReader {
 public:
  MinimaxCall(bool in_call, const ToolSet* tools)
      : tools_(tools), state_(in_call ? State::kFunction : State::kInvoke) {}

  Scan Take(char c, CallWriter* calls) override {
    switch (state_) {
      case State::kInvoke: {
        const Scan scan = tag_.Take(c, {&kMinimaxInvoke, 1});
        return scan == Scan::kDone ? Go(State::kFunction) : scan;
      }
      case State::kFunction:
        return TakeFunction(c, calls);
      case State::kNext: {
        const Scan scan = tag_.Take(c, {&kMinimaxElement, 1});
        return scan == Scan::kDone ? Go(State::kTag) : scan;
      }
      case State::kTag:
        if (c == '>') return EndTag(std::exchange(name_, {}), calls);
        name_.push_back(c);
        return name_.size() > kMaxTagNameBytes || c == '<' || c == '\n' ? Scan::kInvalid : Scan::kMore;
      case State::kText:
        return TakeText(c, calls);
      case State::kLeaf:
        return TakeLeaf(c);
    }
    return Scan::kInvalid;
  }
  bool MayEnd() const override { return false; }

 private:
  enum class State : uint8_t { kInvoke, kFunction, kNext, kTag, kText, kLeaf };
  enum class Kind : uint8_t { kLeaf, kObject, kList };  // a leaf may become one of the others with its first tag
  struct Element {
    std::string name;
    ValueSchema schema;
    Kind kind = Kind::kLeaf;
    std::set<std::string> keys = {};  // of an object's members so far
    bool empty = true;                // nothing is in it yet
  };

  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }

  Scan TakeFunction(char c, CallWriter* calls) {
    name_.push_back(c);
    if (!absl::EndsWith(name_, "\">")) {
      return c == '<' || c == '\n' || name_.size() > kMaxTagNameBytes ? Scan::kInvalid : Scan::kMore;
    }
    name_.resize(name_.size() - 2);
    if (!calls->Name(name_)) return Scan::kInvalid;
    const ToolSet::Tool* tool = tools_->Find(name_);
    name_.clear();
    elements_.push_back({"invoke", tool == nullptr ? ValueSchema() : Arguments(*tool), Kind::kObject});
    calls->Arguments("{");
    return Go(State::kNext);
  }

  Scan EndTag(const std::string& name, CallWriter* calls) {
    if (name == "/" + elements_.back().name) return Close(calls);
    return IsMinimaxName(name) ? Open(name, calls) : Scan::kInvalid;
  }

  Scan Open(const std::string& name, CallWriter* calls) {
    Element& parent = elements_.back();
    if (parent.kind == Kind::kLeaf) {
      if (!IsBlank(text_)) return Scan::kInvalid;
      const bool may_be_object = parent.schema.Names("object");
      const bool may_be_list = parent.schema.Names("array");
      parent.kind = may_be_object == may_be_list ? (name == "item" ? Kind::kList : Kind::kObject)
                    : may_be_list                ? Kind::kList
                                                 : Kind::kObject;
      calls->Arguments(parent.kind == Kind::kList ? "[" : "{");
    }
    if (elements_.size() >= kMaxMinimaxDepth) return Scan::kInvalid;
    calls->Arguments(std::exchange(parent.empty, false) ? "" : ", ");
    if (parent.kind == Kind::kObject) {
      if (!parent.keys.insert(name).second) return Scan::kInvalid;
      calls->Arguments(JsonQuoted(name) + ": ");
    }
    elements_.push_back({name, parent.kind == Kind::kList ? parent.schema.Items() : parent.schema.Member(name)});
    return BeginValue(elements_.back().schema, calls);
  }

  Scan BeginValue(const ValueSchema& schema, CallWriter* calls) {
    text_.clear();
    json_.reset();
    if (schema.text() == ParameterText::kJson) json_.emplace();
    if (schema.text() != ParameterText::kText || !schema.says_types()) return Go(State::kLeaf);
    end_ = absl::StrCat(engine::AbslView(kMinimaxElement), "/", elements_.back().name, ">");
    calls->Arguments("\"");
    return Go(State::kText);
  }

  Scan Close(CallWriter* calls) {
    const Element& element = elements_.back();
    if (element.kind == Kind::kLeaf) {
      calls->Arguments(LeafInJson(element.schema));
    } else {
      calls->Arguments(element.kind == Kind::kList ? "]" : "}");
    }
    elements_.pop_back();
    if (!elements_.empty()) return Go(State::kNext);
    calls->End();
    return Scan::kDone;
  }

  // Lists and objects without anything in them are written as nothing.
  std::string LeafInJson(const ValueSchema& schema) const {
    if (IsBlank(text_) && schema.text() == ParameterText::kJson) {
      if (schema.Names("array")) return "[]";
      if (schema.Names("object")) return "{}";
    }
    return schema.ToJson(text_);
  }

  // Of a value that can only be a string: passes on what cannot be part of its end.
  Scan TakeText(char c, CallWriter* calls) {
    text_.push_back(c);
    const std::string_view end = end_;
    const MarkerMatch match = FindMarker(text_, {&end, 1});
    std::string escaped;
    AppendJsonEscaped(std::string_view(text_).substr(0, match.position), &escaped);
    calls->Arguments(escaped);
    text_.erase(0, match.position);
    if (!match.marker.has_value()) return Scan::kMore;
    calls->Arguments("\"");
    elements_.pop_back();
    return Go(State::kNext);
  }

  // A mark inside a value that must be JSON is a part of one of its strings.
  Scan TakeLeaf(char c) {
    text_.push_back(c);
    if (json_.has_value() && json_->Take(c) != Scan::kMore) json_.reset();
    if (json_.has_value() || !absl::EndsWith(text_, engine::AbslView(kMinimaxElement))) return Scan::kMore;
    text_.resize(text_.size() - kMinimaxElement.size());
    return Go(State::kTag);
  }

  const ToolSet* const tools_;
  State state_;
  NextTag tag_;
  std::string name_;                 // of the function, or inside a tag, as far as read
  std::vector<Element> elements_;    // that are open; the first one is the arguments
  std::string end_;                  // of the text that is passed on as it comes
  std::string text_;                 // of the innermost element, what is not yet passed on
  std::optional<JsonScanner> json_;  // of a value that must be JSON, until it is complete or no JSON
};

}  // namespace

std::unique_ptr<CallReader> MakeMinimaxM3Call(bool in_call, const ToolSet* tools) {
  return std::make_unique<MinimaxCall>(in_call, tools);
}

bool IsMinimaxName(std::string_view name) {
  return IsTagName(name) && name[0] != '/';
}

}  // namespace dunlin::text
