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

class DeepseekCall final : public CallReader {
 public:
  explicit DeepseekCall(bool in_list) : state_(in_list ? State::kBegin : State::kKind) {}

  Scan Take(char c, CallWriter* calls) override {
    switch (state_) {
      case State::kBegin:
        if (IsJsonSpace(c) && begin_.untouched()) return Scan::kMore;
        return Follow(begin_.Take(c), State::kKind);
      case State::kKind:
        return TakeUntil(kSeparator, c) ? Go(State::kForm) : Bounded();
      case State::kForm:
        return TakeForm(c, calls);
      case State::kName:
        if (!TakeUntil("\n", c)) return Bounded();
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

  Scan Go(State state) {
    state_ = state;
    return Scan::kMore;
  }
  Scan Follow(Scan scan, State next) { return scan == Scan::kDone ? Go(next) : scan; }
  Scan Bounded() const { return head_.size() > kMaxHeadBytes ? Scan::kInvalid : Scan::kMore; }
  // Collects head_ up to `end`, which is not part of it. True: `end` is there.
  bool TakeUntil(std::string_view end, char c) {
    head_.push_back(c);
    if (!absl::EndsWith(head_, engine::AbslView(end))) return false;
    head_.resize(head_.size() - end.size());
    return true;
  }
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

}  // namespace

std::unique_ptr<CallReader> MakeMistralCalls() {
  return std::make_unique<MistralCalls>();
}

std::unique_ptr<CallReader> MakeDeepseekCall(bool in_list) {
  return std::make_unique<DeepseekCall>(in_list);
}

}  // namespace dunlin::text
