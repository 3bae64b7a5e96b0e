// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/ggml_codes.h"

#include <cstring>

#include "engine/model/checkpoint/gguf/ggml_blocks.h"
#include "engine/model/checkpoint/gguf/ggml_k_scales.h"

namespace dunlin::engine {
namespace {

constexpr uint16_t kSign = 0x8000;  // of FP16

template <typename Word>
Word WordAt(const uint8_t* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Blocks of 32 elements: byte i holds the low bits of elements i and i + 16.
void Unpack32(const uint8_t* low, uint32_t high, int offset, int8_t* codes) {
  for (size_t i = 0; i < 16; ++i) {
    codes[i] = static_cast<int8_t>(static_cast<int>((low[i] & 0x0FU) | (high >> i & 1U) << 4) - offset);
    codes[i + 16] = static_cast<int8_t>(static_cast<int>(low[i] >> 4 | (high >> (i + 16) & 1U) << 4) - offset);
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
      for (size_t i = 0; i < 16; ++i) out.codes[group * 16 + i] = static_cast<int8_t>(bytes[i] >> shift & 3U);
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
      for (size_t i = 0; i < 16; ++i) {
        const int offset = (high[i] >> (group / 2) & 1) != 0 ? 0 : 4;
        out.codes[group * 16 + i] = static_cast<int8_t>((low[i] >> shift & 3) - offset);
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
  for (; num_blocks > 0; --num_blocks, blocks += 144) {
    UnpackScales(blocks, &out);
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* bytes = blocks + 16 + group / 2 * 32;
      const size_t shift = group % 2 * 4;
      for (size_t i = 0; i < 32; ++i) *out.codes++ = static_cast<int8_t>(bytes[i] >> shift & 0x0FU);
    }
  }
}

void UnpackQ5K(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 176) {
    UnpackScales(blocks, &out);
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* low = blocks + 48 + group / 2 * 32;
      const size_t shift = group % 2 * 4;
      for (size_t i = 0; i < 32; ++i) {
        *out.codes++ = static_cast<int8_t>((low[i] >> shift & 0x0FU) | (blocks[16 + i] >> group & 1U) << 4);
      }
    }
  }
}

void UnpackQ6K(const uint8_t* blocks, size_t num_blocks, CodePointers out) {
  for (; num_blocks > 0; --num_blocks, blocks += 210) {
    *out.factors++ = WordAt<uint16_t>(blocks + 208);
    for (size_t group = 0; group < 16; ++group) {
      *out.scales++ = static_cast<int8_t>(blocks[192 + group]);
      // As in DequantizeQ6K.
      const size_t in_half = group % 8 * 16;
      const uint8_t* low = blocks + group / 8 * 64 + in_half % 64;
      const uint8_t* top = blocks + 128 + group / 8 * 32 + in_half % 32;
      const size_t low_shift = in_half / 64 * 4;
      const size_t top_shift = in_half / 32 * 2;
      for (size_t i = 0; i < 16; ++i) {
        const uint32_t code = (low[i] >> low_shift & 0x0FU) | (top[i] >> top_shift & 3U) << 4;
        *out.codes++ = static_cast<int8_t>(static_cast<int>(code) - 32);
      }
    }
  }
}

constexpr GgmlCodes kTypes[] = {
    {2, {-8, 7, 32, 32, false, false}, &UnpackQ4Type0},      // Q4_0
    {3, {0, 15, 32, 32, false, true}, &UnpackQ4Type1},       // Q4_1
    {6, {-16, 15, 32, 32, false, false}, &UnpackQ5Type0},    // Q5_0
    {7, {0, 31, 32, 32, false, true}, &UnpackQ5Type1},       // Q5_1
    {8, {-128, 127, 32, 32, false, false}, &UnpackQ8Type0},  // Q8_0
    {10, {0, 3, 16, 256, true, true}, &UnpackQ2K},          {11, {-4, 3, 16, 256, true, false}, &UnpackQ3K},
    {12, {0, 15, 32, 256, true, true}, &UnpackQ4K},         {13, {0, 31, 32, 256, true, true}, &UnpackQ5K},
    {14, {-32, 31, 16, 256, true, false}, &UnpackQ6K},      {20, {-127, 113, 32, 32, false, false}, &UnpackIq4Nl},
};

}  // namespace

const GgmlCodes* FindGgmlCodes(uint32_t id) {
  for (const GgmlCodes& row : kTypes) {
    if (row.id == id) return &row;
  }
  return nullptr;
}

}  // namespace dunlin::engine
