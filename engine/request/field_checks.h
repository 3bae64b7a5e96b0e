// SPDX-License-Identifier: Apache-2.0
// Range checks of one field each. Nothing is allocated for a value that passes. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/request/request_field.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// [low, high], or (low, high] when open_low.
struct FloatRange {
  float low;
  float high;
  bool open_low = false;
};

// "[0, 100]", "(0, 1]"
std::string LimitOf(FloatRange range);

// NaN, infinities and subnormal numbers are outside of every range.
std::optional<Violation> CheckFloat(Field field, float value, FloatRange range, FieldIndex index = {});
std::optional<Violation> CheckInt(Field field, int64_t value, int64_t low, int64_t high, FieldIndex index = {});
// "has 17 entries; limit is 16"
std::optional<Violation> CheckCount(Field field, size_t count, size_t max);
// "has 300 bytes; limit is 1 to 256"
std::optional<Violation> CheckBytes(Field field, size_t bytes, size_t min, size_t max, FieldIndex index = {});
// Bytes 0x20 to 0x7e only, at most `max` of them.
std::optional<Violation> CheckPrintable(Field field, std::string_view text, size_t max);
// Each in [0, vocab_size). The first that is not is reported at the index [i], or [first_index, i] when that is given.
std::optional<Violation> CheckTokenIds(Field field, std::span<const TokenId> ids, int32_t vocab_size,
                                       std::optional<int64_t> first_index = std::nullopt);

}  // namespace dunlin::engine
