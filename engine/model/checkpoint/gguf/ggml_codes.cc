// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/ggml_codes.h"

#include <cstring>

#include "engine/model/checkpoint/gguf/ggml_blocks.h"
#include "engine/model/checkpoint/gguf/ggml_iq_codes.h"
#include "engine/model/checkpoint/gguf/ggml_k_scales.h"

namespace dunlin::engine {
namespace {

constexpr uint16_t kSign = 0x8000;  // of FP16

void PutCodes(uint64_t word, int8_t* codes) {
  std::memcpy(codes, &word, sizeof(word));
}
// The low four bits of each byte.
constexpr uint64_t Nibbles(uint64_t word) {
  return word & kEachByte * 0x0F;
}
// Blocks of 32 elements: byte i holds the low bits of elements i and i + 16.
void Unpack32(const uint8_t* low, uint32_t high, uint64_t offset, int8_t* codes) {
  for (size_t i = 0; i < 16; i += 8) {
    const auto word = WordAt<uint64_t>(low + i);
    PutCodes(SubtractBytes(Nibbles(word) | SpreadBits(high >> i) << 4, offset), codes + i);
    PutCodes(SubtractBytes(Nibbles(word >> 4) | SpreadBits(high >> (i + 16)) << 4, offset), codes + i + 16);
  }
}

// A minimum is added there and subtracted here.
void NegatedMinimum(const uint8_t* bytes, CodePointers* out) {
  *out->min_factors++ = WordAt<uint16_t>(bytes) ^ kSign;
  *out->minimums++ = 1;
}

void UnpackQ4Type0(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 18, out.codes += 32) {
    *out.factors++ = WordAt<uint16_t>(blocks);
    Unpack32(blocks + 2, 0, 8, out.codes);
  }
}

void UnpackQ4Type1(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 20, out.codes += 32) {
    *out.factors++ = WordAt<uint16_t>(blocks);
    NegatedMinimum(blocks + 2, &out);
    Unpack32(blocks + 4, 0, 0, out.codes);
  }
}

void UnpackQ5Type0(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 22, out.codes += 32) {
    *out.factors++ = WordAt<uint16_t>(blocks);
    Unpack32(blocks + 6, WordAt<uint32_t>(blocks + 2), 16, out.codes);
  }
}

void UnpackQ5Type1(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 24, out.codes += 32) {
    *out.factors++ = WordAt<uint16_t>(blocks);
    NegatedMinimum(blocks + 2, &out);
    Unpack32(blocks + 8, WordAt<uint32_t>(blocks + 4), 0, out.codes);
  }
}

void UnpackQ8Type0(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 34, out.codes += 32) {
    *out.factors++ = WordAt<uint16_t>(blocks);
    std::memcpy(out.codes, blocks + 2, 32);
  }
}

void UnpackIq4Nl(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 18, out.codes += 32) {
    *out.factors++ = WordAt<uint16_t>(blocks);
    for (size_t i = 0; i < 16; ++i) {
      out.codes[i] = kIq4Values[blocks[2 + i] & 0x0FU];
      out.codes[i + 16] = kIq4Values[blocks[2 + i] >> 4];
    }
  }
}

void UnpackQ2K(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 84, out.codes += 256) {
    *out.factors++ = WordAt<uint16_t>(blocks + 80);
    *out.min_factors++ = WordAt<uint16_t>(blocks + 82);
    for (size_t group = 0; group < 16; ++group) {
      *out.scales++ = static_cast<int8_t>(blocks[group] & 0x0FU);
      *out.minimums++ = static_cast<int8_t>(blocks[group] >> 4);
      const uint8_t* bytes = blocks + 16 + group / 8 * 32 + group % 2 * 16;
      const size_t shift = group % 8 / 2 * 2;
      for (size_t i = 0; i < 16; i += 8) {
        PutCodes(WordAt<uint64_t>(bytes + i) >> shift & kEachByte * 3, out.codes + group * 16 + i);
      }
    }
  }
}

void UnpackQ3K(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 110, out.codes += 256) {
    *out.factors++ = WordAt<uint16_t>(blocks + 108);
    for (size_t group = 0; group < 16; ++group) {
      *out.scales++ = static_cast<int8_t>(UnpackQ3Scale(blocks + 96, group));
      const uint8_t* low = blocks + 32 + group / 8 * 32 + group % 2 * 16;
      const uint8_t* high = blocks + group % 2 * 16;
      const size_t shift = group % 8 / 2 * 2;
      for (size_t i = 0; i < 16; i += 8) {
        const uint64_t top = (WordAt<uint64_t>(high + i) >> (group / 2) & kEachByte) << 2;
        PutCodes(SubtractBytes((WordAt<uint64_t>(low + i) >> shift & kEachByte * 3) | top, 4),
                 out.codes + group * 16 + i);
      }
    }
  }
}

// Scales and minima of Q4_K and Q5_K.
void UnpackScales(const uint8_t* block, CodePointers* out) {
  *out->factors++ = WordAt<uint16_t>(block);
  *out->min_factors++ = WordAt<uint16_t>(block + 2);
  for (size_t group = 0; group < 8; ++group) {
    const ScaleAndMin packed = UnpackScale(block + 4, group);
    *out->scales++ = static_cast<int8_t>(packed.scale);
    *out->minimums++ = static_cast<int8_t>(packed.min);
  }
}

void UnpackQ4K(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 144, out.codes += 256) {
    UnpackScales(blocks, &out);
    for (size_t i = 0; i < 128; i += 8) {
      const auto word = WordAt<uint64_t>(blocks + 16 + i);
      int8_t* codes = out.codes + i / 32 * 64 + i % 32;  // the second 32 elements of each 64 have the high bits
      PutCodes(Nibbles(word), codes);
      PutCodes(Nibbles(word >> 4), codes + 32);
    }
  }
}

void UnpackQ5K(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 176, out.codes += 256) {
    UnpackScales(blocks, &out);
    for (size_t i = 0; i < 128; i += 8) {
      const auto word = WordAt<uint64_t>(blocks + 48 + i);
      const uint64_t top = WordAt<uint64_t>(blocks + 16 + i % 32) >> (i / 32 * 2);  // bit `group` of each byte
      int8_t* codes = out.codes + i / 32 * 64 + i % 32;
      PutCodes(Nibbles(word) | (top & kEachByte) << 4, codes);
      PutCodes(Nibbles(word >> 4) | (top >> 1 & kEachByte) << 4, codes + 32);
    }
  }
}

void UnpackQ6K(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 210, out.codes += 256) {
    *out.factors++ = WordAt<uint16_t>(blocks + 208);
    std::memcpy(out.scales, blocks + 192, 16);
    out.scales += 16;
    // As in DequantizeQ6K: in each half of the block 64 bytes hold the low bits of elements i and i + 64, and 32 bytes
    // the top bits of elements i, i + 32, i + 64 and i + 96.
    for (size_t i = 0; i < 128; i += 8) {
      const size_t in_half = i % 64;
      const auto low = WordAt<uint64_t>(blocks + i);
      const uint64_t top = WordAt<uint64_t>(blocks + 128 + i / 64 * 32 + i % 32) >> (in_half / 32 * 2);
      int8_t* codes = out.codes + i / 64 * 128 + in_half;
      PutCodes(SubtractBytes(Nibbles(low) | (top & kEachByte * 3) << 4, 32), codes);
      PutCodes(SubtractBytes(Nibbles(low >> 4) | (top >> 4 & kEachByte * 3) << 4, 32), codes + 64);
    }
  }
}

using kernels::CodeLevels;

// Of IQ types of 256 elements.
constexpr kernels::CodeTraits Levels(CodeLevels levels, int32_t code_min, int32_t code_max, int32_t group) {
  return {.code_min = code_min,
          .code_max = code_max,
          .group = group,
          .block = 256,
          .scales = true,
          .minimums = false,
          .zero_points = false,
          .wide = true,
          .levels = levels};
}

constexpr GgmlCodes kCodeTypes[] = {
    {2, {-8, 7, 32, 32, false, false}, &UnpackQ4Type0},      // Q4_0
    {3, {0, 15, 32, 32, false, true}, &UnpackQ4Type1},       // Q4_1
    {6, {-16, 15, 32, 32, false, false}, &UnpackQ5Type0},    // Q5_0
    {7, {0, 31, 32, 32, false, true}, &UnpackQ5Type1},       // Q5_1
    {8, {-128, 127, 32, 32, false, false}, &UnpackQ8Type0},  // Q8_0
    {10, {0, 3, 16, 256, true, true}, &UnpackQ2K},
    {11, {-4, 3, 16, 256, true, false}, &UnpackQ3K},
    {12, {0, 15, 32, 256, true, true}, &UnpackQ4K},
    {13, {0, 31, 32, 256, true, true}, &UnpackQ5K},
    {14, {-32, 31, 16, 256, true, false}, &UnpackQ6K},
    {20, {-127, 113, 32, 32, false, false}, &UnpackIq4Nl},
    {16, Levels(CodeLevels::kIq2, -43, 43, 32), &UnpackIq2Xxs},
    {17, Levels(CodeLevels::kIq2, -43, 43, 16), &UnpackIq2Xs},
    {22, Levels(CodeLevels::kIq2, -43, 43, 16), &UnpackIq2S},
    {18, Levels(CodeLevels::kIq3, -62, 62, 32), &UnpackIq3Xxs},
    {21, Levels(CodeLevels::kOdd, -15, 15, 32), &UnpackIq3S},
    {19, Levels(CodeLevels::kOdd, -9, 9, 32), &UnpackIq1S},
    {29, Levels(CodeLevels::kOdd, -9, 9, 16), &UnpackIq1M},
    {23, Levels(CodeLevels::kIq4, -127, 113, 32), &UnpackIq4Xs},
};

}  // namespace

const GgmlCodes* FindGgmlCodes(uint32_t id) {
  for (const GgmlCodes& row : kCodeTypes) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

}  // namespace dunlin::engine
