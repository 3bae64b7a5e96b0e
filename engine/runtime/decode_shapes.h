// SPDX-License-Identifier: Apache-2.0
// The few shapes that decode steps are rounded up to where steps are recorded (StepGraphs): numbers of rows, and bounds
// of the keys of a sequence. A step then meets the shape of one before, however sequences begin, grow and end.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace dunlin::engine {

// Up to 8, 16, 32 and 64 rows products take as long as for fewer.
inline constexpr int32_t kDecodeRows[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};
// Rows of a pass that is recorded. With more of them the device computes longer than the host enqueues.
inline constexpr int32_t kMaxGraphRows = 64;
// At least one split of keys (kernels/cuda/attention divides them each 512 or 1,024).
inline constexpr int32_t kLeastBound = 512;

// max_rows: of a step. More than kMaxGraphRows stay as they are.
inline int32_t RoundedRows(int32_t rows, int32_t max_rows) {
  const auto* rounded = std::ranges::lower_bound(kDecodeRows, rows);
  return rounded == std::end(kDecodeRows) ? rows : std::max(rows, std::min(*rounded, max_rows));
}

// A power of two within the context: a bound that is up to twice too large costs threads that find no keys.
inline int32_t RoundedBound(int32_t kv_tokens, int32_t max_context_tokens) {
  const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint32_t>(std::max(kv_tokens, kLeastBound))));
  return std::max(kv_tokens, static_cast<int32_t>(std::min<int64_t>(rounded, max_context_tokens)));
}

struct DecodeShape {
  int32_t rows;
  int32_t bound;
  friend bool operator==(const DecodeShape&, const DecodeShape&) = default;
};
// All of a model, those of fewer keys first.
inline std::vector<DecodeShape> DecodeShapes(int32_t max_rows, int32_t max_context_tokens) {
  std::vector<DecodeShape> shapes;
  for (int32_t bound = 0; bound < max_context_tokens;) {
    bound = RoundedBound(bound + 1, max_context_tokens);
    for (int32_t rows = 0; rows < std::min(max_rows, kMaxGraphRows);) {
      rows = RoundedRows(rows + 1, max_rows);
      shapes.push_back({rows, bound});
    }
  }
  return shapes;
}

}  // namespace dunlin::engine
