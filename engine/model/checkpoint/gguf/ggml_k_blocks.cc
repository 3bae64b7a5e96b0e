// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/ggml_blocks.h"
#include "engine/model/checkpoint/gguf/ggml_k_scales.h"

namespace dunlin::engine {
namespace {

constexpr size_t kSuperBlockElements = 256;

}  // namespace

void DequantizeQ2K(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 84, out += kSuperBlockElements) {
    const uint8_t* codes = blocks + 16;
    const float d = HalfAt(blocks + 80);
    const float dmin = HalfAt(blocks + 82);
    for (size_t group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(blocks[group] & 0x0FU);
      const float min = dmin * static_cast<float>(blocks[group] >> 4);
      // 128 elements share 32 bytes; each 32 of them one pair of bits.
      const uint8_t* bytes = codes + group / 8 * 32 + group % 2 * 16;
      const size_t shift = group % 8 / 2 * 2;
      for (size_t i = 0; i < 16; ++i) {
        out[group * 16 + i] = scale * static_cast<float>(bytes[i] >> shift & 3U) - min;
      }
    }
  }
}

void DequantizeQ3K(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 110, out += kSuperBlockElements) {
    const uint8_t* mask = blocks;
    const uint8_t* codes = blocks + 32;
    const uint8_t* scales = blocks + 96;
    const float d = HalfAt(blocks + 108);
    for (size_t group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(UnpackQ3Scale(scales, group));
      const uint8_t* low = codes + group / 8 * 32 + group % 2 * 16;
      const uint8_t* high = mask + group % 2 * 16;
      const size_t shift = group % 8 / 2 * 2;
      const size_t bit = group / 2;
      for (size_t i = 0; i < 16; ++i) {
        const int offset = (high[i] >> bit & 1) != 0 ? 0 : 4;
        out[group * 16 + i] = scale * static_cast<float>((low[i] >> shift & 3) - offset);
      }
    }
  }
}

void DequantizeQ4K(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 144, out += kSuperBlockElements) {
    const float d = HalfAt(blocks);
    const float dmin = HalfAt(blocks + 2);
    for (size_t group = 0; group < 8; ++group) {
      const ScaleAndMin packed = UnpackScale(blocks + 4, group);
      const float scale = d * static_cast<float>(packed.scale);
      const float min = dmin * static_cast<float>(packed.min);
      const uint8_t* bytes = blocks + 16 + group / 2 * 32;
      const size_t shift = group % 2 * 4;
      for (size_t i = 0; i < 32; ++i) {
        out[group * 32 + i] = scale * static_cast<float>(bytes[i] >> shift & 0x0FU) - min;
      }
    }
  }
}

void DequantizeQ5K(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 176, out += kSuperBlockElements) {
    const float d = HalfAt(blocks);
    const float dmin = HalfAt(blocks + 2);
    const uint8_t* high = blocks + 16;
    for (size_t group = 0; group < 8; ++group) {
      const ScaleAndMin packed = UnpackScale(blocks + 4, group);
      const float scale = d * static_cast<float>(packed.scale);
      const float min = dmin * static_cast<float>(packed.min);
      const uint8_t* low = blocks + 48 + group / 2 * 32;
      const size_t shift = group % 2 * 4;
      for (size_t i = 0; i < 32; ++i) {
        const uint32_t code = (low[i] >> shift & 0x0FU) | (high[i] >> group & 1U) << 4;
        out[group * 32 + i] = scale * static_cast<float>(code) - min;
      }
    }
  }
}

void DequantizeQ6K(const uint8_t* blocks, size_t num_blocks, float* out) {
  for (; num_blocks > 0; --num_blocks, blocks += 210, out += kSuperBlockElements) {
    const uint8_t* high = blocks + 128;
    const uint8_t* scales = blocks + 192;
    const float d = HalfAt(blocks + 208);
    for (size_t group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(scales[group]));
      // 128 elements share 64 bytes of low codes (a nibble for each 64) and 32 of high ones (two bits for each 32).
      const size_t in_half = group % 8 * 16;
      const uint8_t* low = blocks + group / 8 * 64 + in_half % 64;
      const uint8_t* top = high + group / 8 * 32 + in_half % 32;
      const size_t low_shift = in_half / 64 * 4;
      const size_t top_shift = in_half / 32 * 2;
      for (size_t i = 0; i < 16; ++i) {
        const uint32_t code = (low[i] >> low_shift & 0x0FU) | (top[i] >> top_shift & 3U) << 4;
        out[group * 16 + i] = scale * static_cast<float>(static_cast<int>(code) - 32);
      }
    }
  }
}

}  // namespace dunlin::engine
