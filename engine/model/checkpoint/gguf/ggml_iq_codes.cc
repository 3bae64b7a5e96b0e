// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/ggml_iq_codes.h"

#include <array>
#include <bit>
#include <cstring>

#include "engine/model/checkpoint/gguf/ggml_blocks.h"

namespace dunlin::engine {
namespace {

#include "engine/model/checkpoint/gguf/ggml_grids.inc"

// The magnitudes of an index, a byte each.
template <typename Bytes, size_t kCount>
using Grid = std::array<Bytes, kCount>;
// kBits: of an element's place in `values`.
template <typename Bytes, int kBits, size_t kCount>
constexpr Grid<Bytes, kCount> MakeGrid(const uint16_t (&words)[kCount], const uint8_t (&values)[1 << kBits]) {
  Grid<Bytes, kCount> grid{};
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t j = 0; j < sizeof(Bytes); ++j) {
      const auto value = static_cast<Bytes>(values[words[i] >> (kBits * j) & ((1U << kBits) - 1)]);
      grid[i] |= static_cast<Bytes>(value << (8 * j));
    }
  }
  return grid;
}
constexpr uint8_t kIq2Values[4] = {8, 25, 43};
constexpr uint8_t kIq3XxsValues[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr uint8_t kIq3SValues[8] = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr uint8_t kIq1Values[4] = {0, 8, 16};  // eighths of -1, 0 and 1, plus 8
constexpr auto kIq2Xxs = MakeGrid<uint64_t, 2>(kIq2XxsGrid, kIq2Values);
constexpr auto kIq2Xs = MakeGrid<uint64_t, 2>(kIq2XsGrid, kIq2Values);
constexpr auto kIq2S = MakeGrid<uint64_t, 2>(kIq2SGrid, kIq2Values);
constexpr auto kIq3Xxs = MakeGrid<uint32_t, 3>(kIq3XxsGrid, kIq3XxsValues);
constexpr auto kIq3S = MakeGrid<uint32_t, 3>(kIq3SGrid, kIq3SValues);
constexpr auto kIq1 = MakeGrid<uint64_t, 2>(kIq1Grid, kIq1Values);

template <size_t kCount>
uint64_t Eight(const Grid<uint32_t, kCount>& grid, size_t first, size_t second) {
  return grid[first] | static_cast<uint64_t>(grid[second]) << 32;
}

// Seven signs, and an eighth that makes their number even.
uint32_t EvenSigns(uint32_t index) {
  return (index & 0x7FU) | (static_cast<uint32_t>(std::popcount(index & 0x7FU)) & 1U) << 7;
}

// Eight magnitudes, of which those with a bit in `signs` are negated. None is 0.
void PutSigned(uint64_t magnitudes, uint32_t signs, int8_t* codes) {
  const uint64_t negative = SpreadBits(signs);
  const uint64_t word = (magnitudes ^ negative * 0xFF) + negative;
  std::memcpy(codes, &word, sizeof(word));
}

// Eight of IQ1's elements in eighths: the grid's, shifted by one up or down.
void PutShifted(size_t index, bool down, int8_t* codes) {
  const uint64_t word = SubtractBytes(kIq1[index] + kEachByte * (down ? 0 : 2), 9);
  std::memcpy(codes, &word, sizeof(word));
}

// An odd scale: half of it is the file's plus 0.5.
int8_t OddScale(uint32_t stored) {
  return static_cast<int8_t>(2 * stored + 1);
}

uint32_t Nibble(const uint8_t* bytes, size_t index) {
  return bytes[index / 2] >> (index % 2 * 4) & 0xFU;
}

}  // namespace

void UnpackIq2Xxs(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 66) {
    *out.wide_factors++ = HalfAt(blocks) * 0.125F;
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* indices = blocks + 2 + group * 8;
      const auto signs = WordAt<uint32_t>(indices + 4);
      *out.scales++ = OddScale(signs >> 28);
      for (size_t i = 0; i < 4; ++i, out.codes += 8) {
        PutSigned(kIq2Xxs[indices[i]], EvenSigns(signs >> (7 * i)), out.codes);
      }
    }
  }
}

void UnpackIq2Xs(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 74) {
    *out.wide_factors++ = HalfAt(blocks) * 0.125F;
    for (size_t group = 0; group < 16; ++group) *out.scales++ = OddScale(Nibble(blocks + 66, group));
    for (size_t i = 0; i < 32; ++i, out.codes += 8) {
      const auto word = WordAt<uint16_t>(blocks + 2 + 2 * i);
      PutSigned(kIq2Xs[word & 511U], EvenSigns(word >> 9), out.codes);
    }
  }
}

void UnpackIq2S(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 82) {
    *out.wide_factors++ = HalfAt(blocks) * 0.125F;
    for (size_t group = 0; group < 16; ++group) *out.scales++ = OddScale(Nibble(blocks + 74, group));
    for (size_t i = 0; i < 32; ++i, out.codes += 8) {
      const uint32_t high = blocks[66 + i / 4] >> (i % 4 * 2) & 3U;
      PutSigned(kIq2S[blocks[2 + i] | high << 8], blocks[34 + i], out.codes);
    }
  }
}

void UnpackIq3Xxs(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 98) {
    *out.wide_factors++ = HalfAt(blocks) * 0.25F;
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* indices = blocks + 2 + group * 8;
      const auto signs = WordAt<uint32_t>(blocks + 66 + group * 4);
      *out.scales++ = OddScale(signs >> 28);
      for (size_t i = 0; i < 4; ++i, out.codes += 8) {
        PutSigned(Eight(kIq3Xxs, indices[2 * i], indices[2 * i + 1]), EvenSigns(signs >> (7 * i)), out.codes);
      }
    }
  }
}

void UnpackIq3S(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 110) {
    *out.wide_factors++ = HalfAt(blocks);
    for (size_t group = 0; group < 8; ++group) *out.scales++ = OddScale(Nibble(blocks + 106, group));
    const auto index = [blocks](size_t i) { return blocks[2 + i] | (blocks[66 + i / 8] >> (i % 8) & 1U) << 8; };
    for (size_t i = 0; i < 32; ++i, out.codes += 8) {
      PutSigned(Eight(kIq3S, index(2 * i), index(2 * i + 1)), blocks[74 + i], out.codes);
    }
  }
}

void UnpackIq1S(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 50) {
    *out.wide_factors++ = HalfAt(blocks) * 0.125F;
    for (size_t group = 0; group < 8; ++group) {
      const auto high = WordAt<uint16_t>(blocks + 34 + 2 * group);
      *out.scales++ = OddScale(high >> 12 & 7U);
      for (size_t i = 0; i < 4; ++i, out.codes += 8) {
        const size_t index = blocks[2 + group * 4 + i] | (high >> (3 * i) & 7U) << 8;
        PutShifted(index, (high & 0x8000U) != 0, out.codes);
      }
    }
  }
}

// The factor's bits are the highest four of the words that hold the scales.
void UnpackIq1M(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 56) {
    uint16_t factor = 0;
    for (size_t word = 0; word < 4; ++word) {
      const auto scales = WordAt<uint16_t>(blocks + 48 + 2 * word);
      factor = static_cast<uint16_t>(factor | (scales >> 12) << (4 * word));
      for (size_t i = 0; i < 4; ++i) *out.scales++ = OddScale(scales >> (3 * i) & 7U);
    }
    *out.wide_factors++ = kernels::Fp16ToFloat(factor) * 0.125F;
    for (size_t i = 0; i < 32; ++i, out.codes += 8) {
      const uint32_t high = Nibble(blocks + 32, i);
      PutShifted(blocks[i] | (high & 7U) << 8, (high & 8U) != 0, out.codes);
    }
  }
}

void UnpackIq4Xs(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 136) {
    *out.wide_factors++ = HalfAt(blocks);
    const auto high = WordAt<uint16_t>(blocks + 2);
    for (size_t group = 0; group < 8; ++group, out.codes += 32) {
      const uint32_t scale = Nibble(blocks + 4, group) | (high >> (2 * group) & 3U) << 4;
      *out.scales++ = static_cast<int8_t>(static_cast<int>(scale) - 32);
      const uint8_t* bytes = blocks + 8 + group * 16;
      for (size_t i = 0; i < 16; ++i) {
        out.codes[i] = kIq4Values[bytes[i] & 0x0FU];
        out.codes[i + 16] = kIq4Values[bytes[i] >> 4];
      }
    }
  }
}

}  // namespace dunlin::engine
