// SPDX-License-Identifier: Apache-2.0
// The packed 6-bit scales of GGUF's blocks of 256 elements. Source: github.com/ggml-org/ggml, src/ggml-quants.c.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::engine {

// Scale and minimum of group `group` (of 8) in the 12 bytes that Q4_K and Q5_K share: 6 bits each, those of the last
// four groups split between the upper bits of the first eight bytes and the last four bytes.
struct ScaleAndMin {
  uint32_t scale;
  uint32_t min;
};
inline ScaleAndMin UnpackScale(const uint8_t* packed, size_t group) {
  if (group < 4) return {packed[group] & 0x3FU, packed[group + 4] & 0x3FU};
  const uint32_t low = packed[group + 4];
  return {(low & 0x0FU) | (packed[group - 4] >> 2 & 0x30U), low >> 4 | (packed[group] >> 2 & 0x30U)};
}

// The 6-bit scale, offset by 32, of group `group` (of 16) of Q3_K.
inline int UnpackQ3Scale(const uint8_t* packed, size_t group) {
  const uint32_t low = packed[group % 8] >> (group < 8 ? 0 : 4) & 0x0FU;
  const uint32_t high = packed[8 + group % 4] >> (2 * (group / 4)) & 0x03U;
  return static_cast<int>(low | high << 4) - 32;
}

}  // namespace dunlin::engine
