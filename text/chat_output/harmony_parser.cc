// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/harmony_parser.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::text {
namespace {

constexpr size_t kMaxHeaderBytes = 512;
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kStartMarker = "<|start|>";
constexpr std::string_view kFunctions = "functions.";
constexpr std::array<std::string_view, 5> kHeaderStarts = {"<|start|>", "<|channel|>", "<|message|>", " to=", "to="};
constexpr std::string_view kChannelEnds[] = {kStartMarker, "<|end|>", "<|call|>", "<|return|>"};
// Before a call Muse Glimmer may leave out the end of a message and the start of the next one.
constexpr std::string_view kRecipientEnds[] = {kStartMarker, " to=", "\nto=", "<|eom|>", "<|eot|>"};
constexpr std::string_view kAtemStart = "<atem:";
constexpr std::array<std::string_view, 3> kCallEnds = {"<|call|>", "<|end|>", "<|return|>"};

// The word behind `before`, up to white space or a marker.
std::string_view WordAfter(std::string_view text, std::string_view before) {
  const size_t at = text.find(before);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_of("< \n"));
}

// What the prompt has of the first message, from behind <|start|>assistant.
std::string_view OpenMessage(std::string_view prompt) {
  constexpr std::string_view kAssistant = "<|start|>assistant";
  const size_t at = prompt.rfind(kAssistant);
  return at == std::string_view::npos ? "" : prompt.substr(at + kAssistant.size());
}

}  // namespace

HarmonyParser::HarmonyParser(const Options& options, const ToolSet* tools, ChatOutputSink* sink)
    : frame_(options.frame),
      reasoning_(options.reasoning),
      calls_(options.calls != nullptr),
      parallel_(options.parallel),
      sink_(sink),
      buffer_(tools, options.max_call_bytes, sink),
      tagged_({frame_ == OutputFrame::kRecipients ? options.calls : nullptr, tools, options.parallel,
               options.max_call_bytes},
              sink) {
  const std::string_view open = OpenMessage(options.prompt);
  const size_t message = open.find(kMessage);
  if (message == std::string_view::npos) {
    if (open.size() <= kMaxHeaderBytes) prompt_header_ = open;
    return;
  }
  first_ = false;
  const State state = StateOf(open.substr(0, message));
  state_ = state == State::kReasoning || state == State::kCalls ? state : State::kText;
}

HarmonyParser::State HarmonyParser::StateOf(std::string_view header) const {
  const std::string_view recipient = WordAfter(header, "to=");
  if (frame_ == OutputFrame::kRecipients) {
    if (recipient.empty() || recipient == "user") return State::kText;
    if (recipient == "self") return reasoning_ ? State::kReasoning : State::kRaw;
    return calls_ ? State::kCalls : State::kRaw;
  }
  const std::string_view channel = WordAfter(header, kChannel);
  if (!recipient.empty()) {
    const bool is_call = calls_ && recipient.size() > kFunctions.size() &&
                         recipient.size() <= kFunctions.size() + kMaxCallNameBytes &&
                         absl::StartsWith(engine::AbslView(recipient), engine::AbslView(kFunctions));
    return is_call ? State::kCall : State::kRaw;
  }
  if (channel == "analysis") return reasoning_ ? State::kReasoning : State::kRaw;
  return channel.empty() || channel == "final" || channel == "commentary" ? State::kText : State::kRaw;
}

void HarmonyParser::Push(std::string_view text) {
  pending_.append(text);
  size_t at = 0;
  while (!done() && at < pending_.size()) {
    const State before = state_;
    const size_t taken = Take(std::string_view(pending_).substr(at));
    if (taken == 0 && state_ == before) break;
    at += taken;
  }
  pending_.erase(0, at);
  buffer_.Flush();
}

size_t HarmonyParser::Take(std::string_view rest) {
  switch (state_) {
    case State::kHeader:
      return TakeHeader(rest);
    case State::kCall:
      return TakeCall(rest);
    case State::kCallEnd:
      return TakeCallEnd(rest);
    default:
      return TakeContent(rest);
  }
}

size_t HarmonyParser::TakeHeader(std::string_view rest) {
  const size_t message = rest.find(kMessage);
  const bool in_prompt = first_ && !prompt_header_.empty();
  if (!in_prompt && !MarkerAtStart(rest, kHeaderStarts).has_value()) {
    state_ = State::kText;
    return 0;
  }
  const bool complete = message != std::string_view::npos;
  const bool too_long = complete ? message > kMaxHeaderBytes : rest.size() >= kMaxHeaderBytes + kMessage.size();
  if (too_long) {
    sink_->OnText(rest.substr(0, 1));  // so that what follows begins with no marker
    state_ = State::kText;
    return 1;
  }
  if (!complete) return 0;
  const std::string header = absl::StrCat(first_ ? prompt_header_ : "", engine::AbslView(rest.substr(0, message)));
  first_ = false;
  state_ = StateOf(header);
  const std::string_view raw = rest.substr(0, message + kMessage.size());
  if (state_ == State::kCall) {
    buffer_.AddRaw(raw);
    buffer_.Name(WordAfter(header, "to=").substr(kFunctions.size()));
    arguments_ = JsonScanner();
    begun_ = false;
  } else if (state_ == State::kRaw) {
    sink_->OnText(raw);
  } else {
    sink_->OnMarkup(raw);
  }
  return raw.size();
}

void HarmonyParser::Content(std::string_view content) {
  if (content.empty()) return;
  if (state_ == State::kCalls) return tagged_.Push(content);
  state_ == State::kReasoning ? sink_->OnReasoning(content) : sink_->OnText(content);
}

size_t HarmonyParser::TakeContent(std::string_view rest) {
  std::span<const std::string_view> ends = kChannelEnds;
  if (frame_ == OutputFrame::kRecipients) ends = kRecipientEnds;
  const MarkerMatch match = FindMarker(rest, ends);
  Content(rest.substr(0, match.position));
  if (!match.marker.has_value() || done()) return match.position;
  const std::string_view end = ends[*match.marker];
  const bool start = end == kStartMarker;
  if (!start && end.back() == '=') {
    const std::optional<bool> header = IsHeaderWithoutStart(rest.substr(match.position));
    if (!header.has_value()) return match.position;
    if (!*header) {
      Content(end);
      return match.position + end.size();
    }
    Content(end.substr(0, 1));
    state_ = State::kHeader;
    return match.position + 1;
  }
  if (state_ == State::kCalls) tagged_.Finish();
  const bool raw = std::exchange(state_, State::kHeader) == State::kRaw;
  if (start) return match.position;  // of the next header
  raw ? sink_->OnText(end) : sink_->OnMarkup(end);
  return match.position + end.size();
}

std::optional<bool> HarmonyParser::IsHeaderWithoutStart(std::string_view rest) const {
  const size_t name = rest.find('=') + 1;
  size_t end = name;
  while (end < rest.size() && (absl::ascii_isalnum(static_cast<unsigned char>(rest[end])) ||
                               std::string_view("_.-").find(rest[end]) != std::string_view::npos)) {
    ++end;
  }
  if (state_ == State::kCalls || !calls_ || end > kMaxHeaderBytes) return false;
  const std::string mark = absl::StrCat(engine::AbslView(kMessage), engine::AbslView(kAtemStart));
  const std::string_view behind = rest.substr(end, mark.size());
  if (behind != std::string_view(mark).substr(0, behind.size())) return false;
  if (behind.size() < mark.size()) return std::nullopt;
  return StateOf(rest.substr(0, end)) == State::kCalls;
}

size_t HarmonyParser::TakeCall(std::string_view rest) {
  for (size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    const bool space = !begun_ && IsJsonSpace(c);
    const bool wrong_start = !begun_ && !space && c != '{';
    const Scan scan = space ? Scan::kMore : wrong_start ? Scan::kInvalid : arguments_.Take(c);
    if (scan == Scan::kInvalid || buffer_.full()) {
      buffer_.Break();
      state_ = State::kRaw;
      return i;
    }
    buffer_.AddRaw(rest.substr(i, 1));
    if (space) continue;
    begun_ = true;
    buffer_.Arguments(rest.substr(i, 1));
    if (scan != Scan::kDone) continue;
    buffer_.End();
    state_ = State::kCallEnd;
    return i + 1;
  }
  return rest.size();
}

size_t HarmonyParser::TakeCallEnd(std::string_view rest) {
  size_t space = 0;
  while (space < rest.size() && IsJsonSpace(rest[space])) ++space;
  if (space == rest.size() && space <= kMaxHeaderBytes) return 0;
  const auto match = MarkerAtStart(rest.substr(space), kCallEnds);
  const auto start = MarkerAtStart(rest.substr(space), {&kStartMarker, 1});
  if (match.has_value() && match->marker.has_value()) {
    const size_t end = space + kCallEnds[*match->marker].size();
    sink_->OnMarkup(rest.substr(0, end));
    state_ = State::kHeader;
    return end;
  }
  if (start.has_value() && start->marker.has_value()) {
    if (space > 0) sink_->OnMarkup(rest.substr(0, space));
    state_ = State::kHeader;
    return space;
  }
  if (match.has_value() || start.has_value()) return 0;
  state_ = State::kText;
  return 0;
}

void HarmonyParser::Finish() {
  if (done()) return;
  buffer_.Break();  // of a call that is not complete
  const std::string rest = std::exchange(pending_, {});
  if (state_ == State::kCalls) {
    Content(rest);
    return tagged_.Finish();
  }
  if (rest.empty()) return;
  const bool space = rest.find_first_not_of(" \t\r\n") == std::string::npos;
  if (state_ == State::kCallEnd && space) return sink_->OnMarkup(rest);
  state_ == State::kReasoning ? sink_->OnReasoning(rest) : sink_->OnText(rest);
}

}  // namespace dunlin::text
