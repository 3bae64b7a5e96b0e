// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/named_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "engine/base/string_view.h"
#include "text/chat_output/json_calls.h"
#include "text/chat_output/json_scanner.h"

namespace dunlin::text {
namespace {

constexpr size_t kMaxHeadBytes = 512;  // of what stands before the arguments

std::string_view Trimmed(std::string_view text) {
  return engine::StdView(absl::StripAsciiWhitespace(engine::AbslView(text)));
}

// The arguments; the call ends with them.
class ArgumentsObject {
 public:
  // Takes white space and the object. kDone: the call has ended.
  Scan Take(char c, CallWriter* calls) {
    if (!begun_) {
      if (IsJsonSpace(c)) return Scan::kMore;
      if (c != '{') return Scan::kInvalid;
      begun_ = true;
    }
    const Scan scan = scanner_.Take(c);
    if (scan == Scan::kInvalid) return scan;
    calls->Arguments(std::string_view(&c, 1));
    if (scan == Scan::kDone) calls->End();
    return scan;
  }

 private:
  JsonScanner scanner_;
  bool begun_ = false;
};

class MistralCalls final : public CallReader {
 public:
  Scan Take(char c, CallWriter* calls) override {
    if (list_ != nullptr) return list_->Take(c, calls);
    if (arguments_.has_value()) return arguments_->Take(c, calls);
    if (c == '[' && Trimmed(head_).empty()) {
      list_ = MakeJsonCalls(false);
      return list_->Take(c, calls);
    }
    if (c == '{') {
      if (!EndHead(calls)) return Scan::kInvalid;
      return arguments_->Take(c, calls);
    }
    head_.push_back(c);
    if (head_.size() > kMaxHeadBytes) return Scan::kInvalid;
    if (!absl::EndsWith(head_, "[ARGS]")) return Scan::kMore;
    return EndHead(calls) ? Scan::kMore : Scan::kInvalid;
  }
  bool MayEnd() const override { return list_ != nullptr && list_->MayEnd(); }

 private:
  bool EndHead(CallWriter* calls) {
    std::string_view name = head_;
    name = name.substr(0, std::min(name.find("[ARGS]"), name.find("[CALL_ID]")));
    name = Trimmed(name);
    if (name.find_first_of(" \t\r\n") != std::string_view::npos || !calls->Name(name)) return false;
    arguments_.emplace();
    return true;
  }

  std::unique_ptr<CallReader> list_;
  std::string head_;
  std::optional<ArgumentsObject> arguments_;
};

// A literal that knows whether any of it was read.
class Marker {
 public:
  explicit Marker(std::string_view text) : literal_(text) {}
  bool untouched() const { return untouched_; }
  Scan Take(char c) {
    untouched_ = false;
    return literal_.Take(c);
  }

 private:
  Literal literal_;
  bool untouched_ = true;
};

// Collects up to `end`, which is not part of *text. True: `end` is there.
bool CollectUntil(std::string_view end, char c, std::string* text) {
  text->push_back(c);
  if (!absl::EndsWith(*text, engine::AbslView(end))) return false;
  text->resize(text->size() - end.size());
  return true;
}

class DeepseekCall final : public CallReader {
 public:
  explicit DeepseekCall(bool in_list) : state_(in_list ? State::kBegin : State::kKind) {}

  Scan Take(char c, CallWriter* calls) override {
    switch (state_) {
      case State::kBegin:
        if (IsJsonSpace(c) && begin_.untouched()) return Scan::kMore;
        return Follow(begin_.Take(c), State::kKind);
      case State::kKind:
        return CollectUntil(kSeparator, c, &head_) ? Go(State::kForm) : Bounded();
      case State::kForm:
        return TakeForm(c, calls);
      case State::kName:
        if (!CollectUntil("\n", c, &head_)) return Bounded();
        return calls->Name(Trimmed(head_)) ? Go(State::kFence) : Scan::kInvalid;
      case State::kFence:
        return Follow(fence_.Take(c), State::kArguments);
      case State::kArguments: {
        const Scan scan = arguments_.Take(c, calls);
        return scan == Scan::kDone && fenced_ ? Go(State::kClose) : scan;
      }
      case State::kClose:
        if (IsJsonSpace(c) && close_.untouched()) return Scan::kMore;
        return close_.Take(c);
    }
    return Scan::kInvalid;
  }
  bool MayEnd() const override { return state_ == State::kClose; }

 private:
  enum class State : uint8_t { kBegin, kKind, kForm, kName, kFence, kArguments, kClose };
  static constexpr std::string_view kSeparator = "<｜tool▁sep｜>";

  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }
  Scan Follow(Scan scan, State next) { return scan == Scan::kDone ? Go(next) : scan; }
  Scan Bounded() const { return head_.size() > kMaxHeadBytes ? Scan::kInvalid : Scan::kMore; }
  // Behind the separator: the arguments, or the name.
  Scan TakeForm(char c, CallWriter* calls) {
    if (IsJsonSpace(c)) return Scan::kMore;
    if (c == '{') {
      if (!calls->Name(Trimmed(head_))) return Scan::kInvalid;
      state_ = State::kArguments;
      return arguments_.Take(c, calls);
    }
    fenced_ = true;
    head_.assign(1, c);
    return Go(State::kName);
  }

  State state_;
  bool fenced_ = false;
  std::string head_;
  Marker begin_{"<｜tool▁call▁begin｜>"};
  Literal fence_{"```json"};
  Marker close_{"```"};
  ArgumentsObject arguments_;
};

class KimiCall final : public CallReader {
 public:
  explicit KimiCall(bool in_list) : state_(in_list ? State::kBegin : State::kId) {}

  Scan Take(char c, CallWriter* calls) override {
    switch (state_) {
      case State::kBegin: {
        if (IsJsonSpace(c) && begin_.untouched()) return Scan::kMore;
        const Scan scan = begin_.Take(c);
        if (scan == Scan::kDone) state_ = State::kId;
        return scan == Scan::kDone ? Scan::kMore : scan;
      }
      case State::kId:
        if (!CollectUntil("<|tool_call_argument_begin|>", c, &id_)) {
          return id_.size() > kMaxHeadBytes ? Scan::kInvalid : Scan::kMore;
        }
        state_ = State::kArguments;
        return EndId(calls) ? Scan::kMore : Scan::kInvalid;
      case State::kArguments:
        return arguments_.Take(c, calls);
    }
    return Scan::kInvalid;
  }
  bool MayEnd() const override { return false; }

 private:
  enum class State : uint8_t { kBegin, kId, kArguments };
  // The function's name may have dots and colons of its own.
  bool EndId(CallWriter* calls) {
    const std::string_view id = Trimmed(id_);
    const size_t colon = id.rfind(':');
    if (colon == std::string_view::npos || id.find_first_of(" \t\r\n") != std::string_view::npos) return false;
    const std::string_view number = id.substr(colon + 1);
    if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos) return false;
    constexpr std::string_view kFunctionsPrefix = "functions.";
    std::string_view name = id.substr(0, colon);
    if (name.substr(0, kFunctionsPrefix.size()) == kFunctionsPrefix) name.remove_prefix(kFunctionsPrefix.size());
    calls->Id(id);
    return calls->Name(name);
  }

  State state_;
  std::string id_;
  Marker begin_{"<|tool_call_begin|>"};
  ArgumentsObject arguments_;
};

}  // namespace

std::unique_ptr<CallReader> MakeMistralCalls() {
  return std::make_unique<MistralCalls>();
}

std::unique_ptr<CallReader> MakeDeepseekCall(bool in_list) {
  return std::make_unique<DeepseekCall>(in_list);
}

std::unique_ptr<CallReader> MakeKimiCall(bool in_list) {
  return std::make_unique<KimiCall>(in_list);
}

}  // namespace dunlin::text
