// SPDX-License-Identifier: Apache-2.0
// Reads numbers and texts off the front of a fuzzer's input; what is missing is 0 or empty. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/fuzz_targets.h"

namespace dunlin::fuzz {

class InputBytes {
 public:
  InputBytes(const uint8_t* data, size_t size) : rest_(TextOf(data, size)) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  // Little-endian.
  uint32_t Word() {
    uint32_t word = 0;
    for (uint32_t shift = 0; shift < 32; shift += 8) word |= uint32_t{Byte()} << shift;
    return word;
  }
  // In [0, count). REQUIRES: 1 <= count <= 256.
  uint32_t Below(uint32_t count) { return Byte() % count; }
  std::string_view Text(size_t size) {
    const std::string_view text = rest_.substr(0, std::min(size, rest_.size()));
    rest_.remove_prefix(text.size());
    return text;
  }
  // What stands before the next byte 0xFF, which no UTF-8 text has, or all of the rest; the byte is dropped.
  std::string_view Part() {
    const size_t end = rest_.find('\xFF');
    const std::string_view part = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return part;
  }

 private:
  std::string_view rest_;
};

}  // namespace dunlin::fuzz
