// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "text/utf8.h"

namespace dunlin::text {
namespace {

std::vector<uint16_t> FailureLinks(const std::string& text) {
  std::vector<uint16_t> failure(text.size(), 0);
  size_t matched = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (matched > 0 && text[i] != text[matched]) matched = failure[matched - 1];
    if (text[i] == text[matched]) ++matched;
    failure[i] = static_cast<uint16_t>(matched);
  }
  return failure;
}

absl::Status CheckStopString(const std::string& text, size_t index) {
  if (text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("stop[", index, "] is empty"));
  }
  if (text.size() > kMaxStopStringBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop[", index, "] has ", text.size(), " bytes; limit is ", kMaxStopStringBytes));
  }
  if (!IsValidUtf8(text)) {
    return absl::InvalidArgumentError(absl::StrCat("stop[", index, "] is not valid UTF-8"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StopMatcher> StopMatcher::Create(const std::vector<std::string>& stop_strings, bool include_stop) {
  if (stop_strings.size() > kMaxStopStrings) {
    return absl::InvalidArgumentError(
        absl::StrCat("stop has ", stop_strings.size(), " strings; limit is ", kMaxStopStrings));
  }
  std::vector<Stop> stops;
  for (size_t i = 0; i < stop_strings.size(); ++i) {
    if (absl::Status status = CheckStopString(stop_strings[i], i); !status.ok()) return status;
    stops.push_back({.text = stop_strings[i], .failure = FailureLinks(stop_strings[i])});
  }
  return StopMatcher(std::move(stops), include_stop);
}

StopMatcher::StopMatcher(std::vector<Stop> stops, bool include_stop)
    : stops_(std::move(stops)), include_stop_(include_stop) {}

// Advances every automaton by one byte. Returns the stop string that ends here, or null.
const StopMatcher::Stop* StopMatcher::Advance(char byte) {
  const Stop* found = nullptr;
  for (Stop& stop : stops_) {
    while (stop.matched > 0 && stop.text[stop.matched] != byte) {
      stop.matched = stop.failure[stop.matched - 1];
    }
    if (stop.text[stop.matched] == byte) ++stop.matched;
    const bool complete = stop.matched == stop.text.size();
    if (complete && (found == nullptr || stop.text.size() > found->text.size())) found = &stop;
  }
  return found;
}

StopMatcher::Result StopMatcher::Push(std::string_view piece) {
  if (matched()) return {};
  const size_t held_before = held_.size();
  held_.append(piece);
  for (size_t i = held_before; i < held_.size(); ++i) {
    const Stop* stop = Advance(held_[i]);
    if (stop == nullptr) continue;
    stop_index_ = static_cast<int>(stop - stops_.data());
    held_.resize(include_stop_ ? i + 1 : i + 1 - stop->text.size());
    return {.text = std::exchange(held_, {}), .stop_index = stop_index_};
  }
  size_t keep = 0;
  for (const Stop& stop : stops_) keep = std::max(keep, stop.matched);
  std::string text = held_.substr(0, held_.size() - keep);
  held_.erase(0, text.size());
  return {.text = std::move(text), .stop_index = std::nullopt};
}

std::string StopMatcher::Finish() {
  return std::exchange(held_, {});
}

}  // namespace dunlin::text
