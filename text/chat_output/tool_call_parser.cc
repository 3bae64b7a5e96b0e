// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/tool_call_parser.h"

#include <span>
#include <utility>

namespace dunlin::text {
namespace {

constexpr size_t kMaxSpaceBytes = 256;  // that are held back as a part of the markup

size_t LeadingSpace(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && IsJsonSpace(text[at])) ++at;
  return at;
}

std::span<const std::string_view> OpenersOf(const ToolFormat* format) {
  return format == nullptr ? std::span<const std::string_view>() : format->openers;
}

}  // namespace

ToolCallParser::ToolCallParser(const Options& options, ChatOutputSink* sink)
    : format_(options.format),
      tags_(options.tags),
      closing_{"\n\n" + std::string(tags_.close), "\n" + std::string(tags_.close), std::string(tags_.close)},
      marks_(OpenersOf(format_).begin(), OpenersOf(format_).end()),
      tagged_(tags_.open.empty() ? Tagged::kAfter : Tagged::kBefore),
      tools_(options.tools),
      parallel_(options.parallel),
      sink_(sink),
      buffer_(options.tools, options.max_call_bytes, sink) {
  marks_.insert(marks_.end(), closing_.begin(), closing_.end());
}

void ToolCallParser::Push(std::string_view text) {
  if (format_ == nullptr && tags_.open.empty()) return sink_->OnText(text);
  pending_.append(text);
  size_t at = 0;
  while (!done() && at < pending_.size()) {
    const std::string_view rest = std::string_view(pending_).substr(at);
    const std::optional<size_t> taken = reader_ != nullptr ? TakeCalls(rest)
                                        : boundary_        ? TakeAtBoundary(rest)
                                                           : TakeText(rest);
    if (!taken.has_value()) break;
    at += *taken;
  }
  pending_.erase(0, at);
  buffer_.Flush();
}

std::optional<size_t> ToolCallParser::TakeCalls(std::string_view rest) {
  for (size_t i = 0; i < rest.size(); ++i) {
    buffer_.AddRaw(rest.substr(i, 1));
    const Scan scan = reader_->Take(rest[i], &buffer_);
    if (done()) return i + 1;
    if (scan == Scan::kMore && !buffer_.full()) continue;
    reader_.reset();
    // A list without calls is text.
    if (scan == Scan::kDone && buffer_.num_calls() > calls_before_) {
      buffer_.EndMarkup();
      boundary_ = true;
      return i + 1;
    }
    if (scan == Scan::kInvalid) buffer_.DropLastRaw();
    buffer_.Break();
    boundary_ = false;
    return scan == Scan::kInvalid ? i : i + 1;
  }
  return rest.size();
}

std::optional<size_t> ToolCallParser::TakeTag(std::string_view rest, size_t space) {
  if (tagged_ == Tagged::kAfter) return 0;
  const std::string_view tag = tagged_ == Tagged::kBefore ? tags_.open : tags_.close;
  const auto found = MarkerAtStart(rest.substr(space), {&tag, 1});
  if (!found.has_value()) return 0;
  if (!found->marker.has_value()) return std::nullopt;
  tagged_ = tagged_ == Tagged::kBefore ? Tagged::kOpened : Tagged::kAfter;
  sink_->OnMarkup(rest.substr(0, space + tag.size()));
  return space + tag.size();
}

std::optional<size_t> ToolCallParser::TakeAtBoundary(std::string_view rest) {
  if (tagged_ == Tagged::kOpened && rest[0] == '\n') {
    sink_->OnMarkup("\n");
    return 1;
  }
  if (tagged_ == Tagged::kOpened) tagged_ = Tagged::kInside;
  const size_t space = LeadingSpace(rest);
  if (space <= kMaxSpaceBytes) {
    if (space == rest.size()) return std::nullopt;
    const std::string_view next = rest.substr(space);
    if (const std::optional<size_t> tag = TakeTag(rest, space); tag != size_t{0}) return tag;
    const auto opener = MarkerAtStart(next, OpenersOf(format_));
    if (opener.has_value() && opener->marker.has_value()) {
      const size_t end = space + format_->openers[*opener->marker].size();
      Begin(rest.substr(0, end), *opener->marker);
      return end;
    }
    const bool behind_call = buffer_.num_calls() > 0;
    const auto closer = behind_call ? MarkerAtStart(next, format_->closers) : std::nullopt;
    if (closer.has_value() && closer->marker.has_value()) {
      const size_t end = space + format_->closers[*closer->marker].size();
      sink_->OnMarkup(rest.substr(0, end));
      return end;
    }
    if (opener.has_value() || closer.has_value()) return std::nullopt;
    if (!behind_call && format_ != nullptr && format_->bare != '\0' && next[0] == format_->bare) {
      Begin(rest.substr(0, space), format_->openers.size());
      return space;
    }
  }
  boundary_ = false;
  if (tagged_ == Tagged::kBefore) tagged_ = Tagged::kAfter;
  return 0;
}

std::optional<size_t> ToolCallParser::TakeText(std::string_view rest) {
  const size_t num_openers = OpenersOf(format_).size();
  const bool inside = tagged_ == Tagged::kInside;
  const MarkerMatch match = FindMarker(rest, std::span(marks_).first(inside ? marks_.size() : num_openers));
  if (match.position > 0) sink_->OnText(rest.substr(0, match.position));
  if (match.marker.has_value()) {
    const std::string_view mark = marks_[*match.marker];
    if (*match.marker < num_openers) {
      Begin(mark, *match.marker);
    } else {
      sink_->OnMarkup(mark);
      tagged_ = Tagged::kAfter;
      boundary_ = true;
    }
    return match.position + mark.size();
  }
  if (match.position == 0) return std::nullopt;
  return match.position;
}

void ToolCallParser::Begin(std::string_view raw, size_t opener) {
  buffer_.AddRaw(raw);
  buffer_.set_known_names_only(opener == format_->openers.size());
  reader_ = format_->make_reader(opener, tools_);
  calls_before_ = buffer_.num_calls();
}

void ToolCallParser::Finish() {
  if (done()) return;
  const std::string rest = std::exchange(pending_, {});
  const bool boundary = std::exchange(boundary_, true);
  if (const std::unique_ptr<CallReader> reader = std::move(reader_)) {
    return reader->MayEnd() ? buffer_.EndMarkup() : buffer_.Break();
  }
  if (rest.empty()) return;
  const bool closed = tagged_ == Tagged::kAfter && !tags_.open.empty();
  const bool is_markup = boundary && (closed || buffer_.num_calls() > 0) && LeadingSpace(rest) == rest.size();
  is_markup ? sink_->OnMarkup(rest) : sink_->OnText(rest);
}

}  // namespace dunlin::text
