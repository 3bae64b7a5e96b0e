// SPDX-License-Identifier: Apache-2.0
// GGUF's block formats as integer codes with scales, for products of the codes themselves: scale * code - minimum has
// the bits of the dequantised values (ggml_blocks.h). One row per type that has such codes. Pure.
// Source: github.com/ggml-org/ggml, src/ggml-common.h (layouts).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/weight_codes.h"

namespace dunlin::engine {

// Where the parts of a row go; those that the type does not have are null.
struct CodePointers {
  int8_t* codes;
  uint16_t* factors;
  int8_t* scales;
  uint16_t* min_factors;
  int8_t* minimums;
  float* wide_factors = nullptr;
};

// Codes are unpacked eight at a time, a byte each in a word.
inline constexpr uint64_t kEachByte = 0x0101010101010101;

// Subtracts `offset` from every byte. REQUIRES: no byte and no offset is over 127.
constexpr uint64_t SubtractBytes(uint64_t word, uint64_t offset) {
  return ((word | kEachByte * 0x80) - kEachByte * offset) ^ kEachByte * 0x80;
}
// Bit i of `bits`, of which the low eight count, in byte i.
constexpr uint64_t SpreadBits(uint32_t bits) {
  const uint64_t selected = kEachByte * (bits & 0xFFU) & 0x8040201008040201;
  return (selected + kEachByte * 0x7F) >> 7 & kEachByte;
}
static_assert(SubtractBytes(0x0F0020, 32) == 0xE0E0E0E0E0EFE000 && SpreadBits(0x186) == 0x0100000000010100);

struct GgmlCodes {
  uint32_t id;                                                                 // GgmlType's
  kernels::CodeTraits traits;                                                  // block: the elements of a block
  void (*unpack)(const uint8_t* blocks, size_t num_blocks, CodePointers out);  // no alignment is required of `blocks`
};

// The row of that type, or null. Rows have static lifetime.
const GgmlCodes* FindGgmlCodes(uint32_t id);

}  // namespace dunlin::engine
