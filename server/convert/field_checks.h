// Range checks of wire fields, one sentence per refusal: "sampling.top_p is 1.5; limit is (0, 1]". Nothing is allocated
// for a value that passes. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace dunlin::server {

// [low, high], or (low, high] when open_low.
struct FloatRange {
  float low;
  float high;
  bool open_low = false;
};

// NaN, infinities and subnormal numbers are outside of every range.
absl::Status CheckFloat(std::string_view field, float value, FloatRange range);
absl::Status CheckInt(std::string_view field, int64_t value, int64_t low, int64_t high);
// "has 17 entries; limit is 16"
absl::Status CheckCount(std::string_view field, size_t count, size_t max);
// "has 300 bytes; limit is 1 to 256"
absl::Status CheckBytes(std::string_view field, size_t bytes, size_t min, size_t max);
// Bytes 0x20 to 0x7e only, at most `max` of them.
absl::Status CheckPrintable(std::string_view field, std::string_view text, size_t max);
// [0, vocab_size): rows of the embedding.
absl::Status CheckTokenId(std::string_view field, int32_t id, int32_t vocab_size);

}  // namespace dunlin::server
