// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/reasoning_parser.h"

#include <span>
#include <utility>

#include "text/chat_output/scan.h"

namespace dunlin::text {

ReasoningParser::ReasoningParser(const ReasoningFormat& format, bool inside, OutputStage* answer, ChatOutputSink* sink)
    : format_(format),
      closing_{"\n\n" + std::string(format.close), "\n" + std::string(format.close), std::string(format.close)},
      close_marks_(closing_.begin(), closing_.end()),
      answer_(answer),
      sink_(sink),
      state_(inside ? State::kAfterOpen : State::kStart) {
  close_marks_.insert(close_marks_.end(), format.calls.begin(), format.calls.end());
}

void ReasoningParser::Push(std::string_view text) {
  if (state_ == State::kAnswer) return answer_->Push(text);
  pending_.append(text);
  size_t at = 0;
  while (at < pending_.size()) {
    const State before = state_;
    const size_t taken = Take(std::string_view(pending_).substr(at));
    if (taken == 0 && state_ == before) break;
    at += taken;
  }
  pending_.erase(0, at);
}

size_t ReasoningParser::Take(std::string_view rest) {
  switch (state_) {
    case State::kStart:
      return TakeStart(rest);
    case State::kInside:
      return TakeInside(rest);
    case State::kAnswer:
      answer_->Push(rest);
      return rest.size();
    default:
      break;
  }
  if (rest[0] != '\n') {
    state_ = state_ == State::kAfterOpen ? State::kInside : State::kAnswer;
    return 0;
  }
  sink_->OnMarkup("\n");
  return 1;
}

size_t ReasoningParser::TakeStart(std::string_view rest) {
  size_t space = 0;
  while (space < rest.size() && IsJsonSpace(rest[space])) ++space;
  constexpr size_t kMaxSpaceBytes = 256;  // that are held back
  const std::string_view next = rest.substr(space);
  const std::array<std::string_view, 2> markers = {format_.open, format_.close};
  const auto match = MarkerAtStart(next, std::span(markers).first(format_.lone_close ? 2 : 1));
  if (space > kMaxSpaceBytes || (!next.empty() && !match.has_value())) {
    state_ = State::kAnswer;
    return 0;
  }
  if (next.empty() || !match->marker.has_value()) return 0;
  const size_t end = space + markers[*match->marker].size();
  sink_->OnMarkup(rest.substr(0, end));
  state_ = *match->marker == 0 ? State::kAfterOpen : State::kAfterClose;
  return end;
}

size_t ReasoningParser::TakeInside(std::string_view rest) {
  const MarkerMatch match = FindMarker(rest, close_marks_);
  if (match.position > 0) sink_->OnReasoning(rest.substr(0, match.position));
  if (!match.marker.has_value()) return match.position;
  if (*match.marker >= closing_.size()) {
    state_ = State::kAnswer;
    return match.position;
  }
  sink_->OnMarkup(close_marks_[*match.marker]);
  state_ = State::kAfterClose;
  return match.position + close_marks_[*match.marker].size();
}

void ReasoningParser::Finish() {
  const std::string rest = std::exchange(pending_, {});
  if (state_ == State::kStart && !rest.empty()) answer_->Push(rest);
  if (state_ == State::kInside && !rest.empty()) sink_->OnReasoning(rest);
  answer_->Finish();
}

}  // namespace dunlin::text
