// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/scan.h"

namespace dunlin::text {

std::optional<MarkerMatch> MarkerAtStart(std::string_view text, std::span<const std::string_view> markers) {
  bool part = false;
  for (size_t i = 0; i < markers.size(); ++i) {
    if (text.substr(0, markers[i].size()) == markers[i]) return MarkerMatch{0, i};
    part = part || markers[i].substr(0, text.size()) == text;
  }
  if (!part || text.empty()) return std::nullopt;
  return MarkerMatch{0, std::nullopt};
}

MarkerMatch FindMarker(std::string_view text, std::span<const std::string_view> markers) {
  for (size_t at = 0; at < text.size(); ++at) {
    const auto match = MarkerAtStart(text.substr(at), markers);
    if (match.has_value()) return {at, match->marker};
  }
  return {text.size(), std::nullopt};
}

Scan NextTag::Take(char c, std::span<const std::string_view> tags) {
  if (text_.empty() && IsJsonSpace(c)) return Scan::kMore;
  text_.push_back(c);
  const auto match = MarkerAtStart(text_, tags);
  if (!match.has_value()) return Scan::kInvalid;
  if (!match->marker.has_value()) return Scan::kMore;
  found_ = *match->marker;
  text_.clear();
  return Scan::kDone;
}

}  // namespace dunlin::text
