// SPDX-License-Identifier: Apache-2.0
// Finds stop strings in text that arrives in pieces, including matches that span pieces. The result does not depend on
// how the text is split. One object per sequence. The match that counts ends first; of several that end there, the
// longest; of equal strings, the first in the list. Work per byte is bounded by the number of stop strings (amortised),
// memory by three times their bytes.
// Owner: the request. Thread rule: one thread at a time.
// Source: Knuth, Morris & Pratt 1977, one automaton for each stop string.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dunlin::text {

inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;

class StopMatcher {
 public:
  struct Result {
    std::string text;               // final: no later piece can change it
    std::optional<int> stop_index;  // the stop string that ended the text; unset while none has
  };

  // stop_strings: at most kMaxStopStrings, each 1 to kMaxStopStringBytes bytes of UTF-8. Without any, all text passes.
  // include_stop: whether the matched string is part of the text.
  // Errors: INVALID_ARGUMENT (too many, empty, too long, not UTF-8: names the index and the limit).
  static absl::StatusOr<StopMatcher> Create(const std::vector<std::string>& stop_strings, bool include_stop = false);

  // Takes the next piece, in whole UTF-8 characters, and returns whole characters. Holds back the longest suffix that
  // could still become a stop string, at most kMaxStopStringBytes - 1 bytes. Returns no text after a match.
  Result Push(std::string_view piece);

  // Ends the text: returns the held bytes; empty after a match.
  std::string Finish();

  bool matched() const { return stop_index_.has_value(); }
  size_t held_bytes() const { return held_.size(); }

 private:
  struct Stop {
    std::string text;
    std::vector<uint16_t> failure;  // [size of text] failure[i]: longest proper suffix of
                                    // text[0..i] that is also a prefix of text
    size_t matched = 0;             // length of the longest prefix of text that is a suffix of the seen text
  };

  StopMatcher(std::vector<Stop> stops, bool include_stop);
  const Stop* Advance(char byte);

  std::vector<Stop> stops_;
  bool include_stop_;
  std::string held_;  // seen, not returned yet
  std::optional<int> stop_index_;
};

}  // namespace dunlin::text
