// Finds stop strings in a text that arrives in pieces, across the borders of the pieces. The result
// does not depend on how the text was cut. One object per sequence.
// Which match counts: the one whose last byte comes first; of several ending there the longest; of
// equal strings the first in the list. Work per byte is bounded by the number of stop strings
// (amortised), memory by three times their bytes.
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

namespace dunlin::engine {

inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 256;

class StopMatcher {
 public:
  struct Result {
    std::string text;               // safe to send: no later text can change it
    std::optional<int> stop_index;  // which stop string ended the text; unset: go on
  };

  // stop_strings: at most kMaxStopStrings, each 1 to kMaxStopStringBytes bytes of UTF-8; none at
  //   all is allowed, and everything passes through.
  // include_stop: the matched string itself is part of the text, as with include_stop_str.
  // Errors: INVALID_ARGUMENT (too many, empty, too long, not UTF-8: names the index and the limit).
  static absl::StatusOr<StopMatcher> Create(const std::vector<std::string>& stop_strings, bool include_stop = false);

  // Takes the next piece (whole UTF-8 characters). Holds back the longest end that could still
  // become a stop string, at most kMaxStopStringBytes - 1 bytes; what it gives out is whole
  // characters. After a match nothing more is given out, whatever is pushed.
  Result Push(std::string_view piece);

  // The end of the text without a match: gives out what was held; empty after a match.
  std::string Finish();

  bool matched() const { return stop_index_.has_value(); }
  size_t held_bytes() const { return held_.size(); }

 private:
  struct Stop {
    std::string text;
    std::vector<uint16_t> failure;  // [size of text] failure[i]: longest proper suffix of
                                    // text[0..i] that is also a prefix of text
    size_t matched = 0;             // longest prefix of text that the seen text ends with
  };

  StopMatcher(std::vector<Stop> stops, bool include_stop);
  const Stop* Advance(char byte);

  std::vector<Stop> stops_;
  bool include_stop_;
  std::string held_;  // seen, not given out yet
  std::optional<int> stop_index_;
};

}  // namespace dunlin::engine
