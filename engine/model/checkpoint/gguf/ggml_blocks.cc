// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/ggml_blocks.h"

#include <bit>

namespace dunlin::engine {
namespace {

constexpr size_t kBlockElements = 32;
constexpr size_t kHalf = kBlockElements / 2;  // byte i holds the codes of elements i (low bits) and i + kHalf

// Calls value(code, element) for the 32 codes of 4 bits and stores what it returns.
template <typename Value>
void ForEachNibble(const uint8_t* codes, float* out, Value value) {
  for (size_t i = 0; i < kHalf; ++i) {
    out[i] = value(codes[i] & 0x0FU, i);
    out[i + kHalf] = value(static_cast<uint32_t>(codes[i] >> 4), i + kHalf);
  }
}

// The code of 5 bits: bit `element` of `high` is its highest.
uint32_t FiveBits(uint32_t low, uint32_t high, size_t element) {
  return low | (high >> element & 1U) << 4;
}

}  // namespace

void DequantizeQ4Type0(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 18, out += kBlockElements) {
    const float d = HalfAt(blocks);
    ForEachNibble(blocks + 2, out,
                  [d](uint32_t code, size_t) { return d * static_cast<float>(static_cast<int>(code) - 8); });
  }
}

void DequantizeQ4Type1(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 20, out += kBlockElements) {
    const float d = HalfAt(blocks);
    const float m = HalfAt(blocks + 2);
    ForEachNibble(blocks + 4, out, [d, m](uint32_t code, size_t) { return d * static_cast<float>(code) + m; });
  }
}

void DequantizeQ5Type0(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 22, out += kBlockElements) {
    const float d = HalfAt(blocks);
    const uint32_t high = WordAt<uint32_t>(blocks + 2);
    ForEachNibble(blocks + 6, out, [d, high](uint32_t low, size_t i) {
      return d * static_cast<float>(static_cast<int>(FiveBits(low, high, i)) - 16);
    });
  }
}

void DequantizeQ5Type1(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 24, out += kBlockElements) {
    const float d = HalfAt(blocks);
    const float m = HalfAt(blocks + 2);
    const uint32_t high = WordAt<uint32_t>(blocks + 4);
    ForEachNibble(blocks + 8, out,
                  [d, m, high](uint32_t low, size_t i) { return d * static_cast<float>(FiveBits(low, high, i)) + m; });
  }
}

void DequantizeQ8Type0(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 34, out += kBlockElements) {
    const float d = HalfAt(blocks);
    for (size_t i = 0; i < kBlockElements; ++i) out[i] = static_cast<float>(static_cast<int8_t>(blocks[2 + i])) * d;
  }
}

void DequantizeIq4Nl(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 18, out += kBlockElements) {
    const float d = HalfAt(blocks);
    ForEachNibble(blocks + 2, out, [d](uint32_t code, size_t) { return d * static_cast<float>(kIq4Values[code]); });
  }
}

// E2M1 codes, doubled to be integers, and half of an E8M0 scale, whose two smallest values are subnormal.
void DequantizeMxFp4(const uint8_t* blocks, size_t num_blocks, float* out) {
  constexpr int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  for (; num_blocks > 0; --num_blocks, blocks += 17, out += kBlockElements) {
    const uint32_t exponent = blocks[0];
    const float d = std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23);
    ForEachNibble(blocks + 1, out, [&](uint32_t code, size_t) { return d * static_cast<float>(kValues[code]); });
  }
}

}  // namespace dunlin::engine
