// SPDX-License-Identifier: Apache-2.0
// The order of elements inside a K or V block of a CPU KV page: the only place that knows it, with the tile kernels of
// kernels/cpu/attention/ that read it. A block holds one layer, one KV head and one page: T = tokens_per_page tokens.
//
//          K block            V block
//   BF16   [D/2][T=16][2]     [T/2][D][2]    D = head_dim padded to even with zeros; pairs for the BF16 dot product
//   FP16   [d][T=16]          [T][d]         d = head_dim
//   FP32   [d][T=8]           [T][d]
//   E4M3   [d][T=32]          [T][d]           codes, then [T] FP32 scales at D * T: element = code * scale of its
//   token
//
// K is key-major inside, so that one vector holds a tile's keys and a score is one chain over d in ascending order.
// Slots never written may hold anything. Writing the even token of a BF16 V pair zeroes its partner, so the tokens of a
// page are written in ascending order, and the two of a pair by one thread. Thread rule: otherwise plain memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/api/kv_layout.h"
#include "kernels/cpu/activation/fp8_scale.h"

namespace dunlin::kernels::cpu {

inline size_t KvBlockOffset(const KvLayout& layout, int32_t page, int32_t layer, int32_t kv_head) {
  return static_cast<size_t>(page) * layout.page_bytes + static_cast<size_t>(layer) * layout.layer_bytes +
         static_cast<size_t>(kv_head) * layout.head_bytes;
}

// The K block of (page, layer, KV head); its V block follows at + layout.key_block_bytes. 64-byte aligned where the
// pool is.
inline std::byte* KeyBlock(void* kv_pool, const KvLayout& layout, int32_t page, int32_t layer, int32_t kv_head) {
  return static_cast<std::byte*>(kv_pool) + KvBlockOffset(layout, page, layer, kv_head);
}
inline const std::byte* KeyBlock(const void* kv_pool, const KvLayout& layout, int32_t page, int32_t layer,
                                 int32_t kv_head) {
  return static_cast<const std::byte*>(kv_pool) + KvBlockOffset(layout, page, layer, kv_head);
}

// The FP32 scale of a token in a block of E4M3 codes; dim: that of the block's rows.
constexpr size_t Fp8ScaleOffset(int32_t dim, int32_t slot) {
  return (static_cast<size_t>(dim) + 1) / 2 * 2 * static_cast<size_t>(TokensPerPage(DType::kF8E4M3)) +
         static_cast<size_t>(slot) * sizeof(float);
}
inline float LoadFp8Scale(const std::byte* block, int32_t dim, int32_t slot) {
  float scale;
  std::memcpy(&scale, block + Fp8ScaleOffset(dim, slot), sizeof(scale));
  return scale;
}
inline void StoreFp8Scale(std::byte* block, int32_t dim, int32_t slot, float scale) {
  std::memcpy(block + Fp8ScaleOffset(dim, slot), &scale, sizeof(scale));
}

// A BF16 pair written as one word; readers see two 16-bit elements.
using PairWord [[gnu::may_alias]] = uint32_t;

// Element index of (token slot, dimension) inside a block.
constexpr size_t KeyIndex(const KvLayout& layout, int32_t slot, int32_t dim) {
  const size_t tokens = static_cast<size_t>(layout.tokens_per_page);
  const size_t s = static_cast<size_t>(slot);
  const size_t d = static_cast<size_t>(dim);
  return layout.dtype == DType::kBF16 ? (d / 2 * tokens + s) * 2 + d % 2 : d * tokens + s;
}
constexpr size_t ValueIndex(const KvLayout& layout, int32_t slot, int32_t dim) {
  const size_t head_dim = static_cast<size_t>(layout.shape.v_head_dim);
  const size_t s = static_cast<size_t>(slot);
  const size_t d = static_cast<size_t>(dim);
  return layout.dtype == DType::kBF16 ? (s / 2 * ((head_dim + 1) / 2 * 2) + d) * 2 + s % 2 : s * head_dim + d;
}

// Writes dimensions [first, first + count) of one token's key, already in the page's format: floats, FP16 or BF16
// bits, or E4M3 codes. first is even; the call that writes the last dimension also writes the padding.
inline void StoreKeyPart(const KvLayout& layout, std::byte* key_block, int32_t slot, int32_t first, int32_t count,
                         const void* key) {
  if (layout.dtype == DType::kF32) {
    auto* block = reinterpret_cast<float*>(key_block) + first * 8 + slot;
    for (int32_t d = 0; d < count; ++d) block[d * 8] = static_cast<const float*>(key)[d];
  } else if (layout.dtype == DType::kF16) {
    auto* block = reinterpret_cast<uint16_t*>(key_block) + first * 16 + slot;
    for (int32_t d = 0; d < count; ++d) block[d * 16] = static_cast<const uint16_t*>(key)[d];
  } else if (layout.dtype == DType::kF8E4M3) {
    std::byte* block = key_block + first * 32 + slot;
    for (int32_t d = 0; d < count; ++d) block[d * 32] = static_cast<const std::byte*>(key)[d];
  } else {
    auto* block = reinterpret_cast<PairWord*>(key_block) + first / 2 * 16 + slot;
    const auto* bits = static_cast<const uint16_t*>(key);
    int32_t d = 0;
    for (; d + 2 <= count; d += 2) std::memcpy(&block[d / 2 * 16], bits + d, sizeof(PairWord));
    if (d < count) block[d / 2 * 16] = bits[d];
  }
}

// The same for a value. The even token of a BF16 pair zeroes the odd one.
inline void StoreValuePart(const KvLayout& layout, std::byte* value_block, int32_t slot, int32_t first, int32_t count,
                           const void* value) {
  const int64_t head_dim = layout.shape.v_head_dim;
  if (layout.dtype != DType::kBF16) {
    const size_t element = SizeOf(layout.dtype);
    std::memcpy(value_block + static_cast<size_t>(slot * head_dim + first) * element, value,
                static_cast<size_t>(count) * element);
    return;
  }
  auto* pairs = reinterpret_cast<PairWord*>(value_block) + slot / 2 * ((head_dim + 1) / 2 * 2) + first;
  const auto* bits = static_cast<const uint16_t*>(value);
  if (slot % 2 == 0) {
    for (int32_t d = 0; d < count; ++d) pairs[d] = bits[d];
  } else {
    for (int32_t d = 0; d < count; ++d) pairs[d] = (pairs[d] & 0xFFFFU) | static_cast<uint32_t>(bits[d]) << 16;
  }
  if (first + count == head_dim && head_dim % 2 != 0) pairs[count] = 0;
}

// Quantises one token's key or value: its amax maps to 448.
template <typename StorePart>
void StoreFp8Token(const KvLayout& layout, std::byte* block, int32_t slot, int32_t dim, const float* row,
                   const StorePart& store_part) {
  uint32_t largest = 0;
  for (int32_t d = 0; d < dim; ++d) largest = std::max(largest, std::bit_cast<uint32_t>(row[d]) & 0x7FFFFFFFU);
  const Fp8Scale scale = ScaleOfRow(largest);
  for (int32_t d = 0; d < dim; ++d) {
    // One element at a time: only BF16 pairs need an even first dimension.
    const uint8_t code = FloatToE4M3(row[d] * scale.factor);
    store_part(layout, block, slot, d, 1, &code);
  }
  StoreFp8Scale(block, dim, slot, scale.scale);
}

// Writes one token's key and value, rounded to the page dtype. key, value: [head_dim].
inline void StoreToken(const KvLayout& layout, std::byte* key_block, int32_t slot, const float* key,
                       const float* value) {
  std::byte* value_block = key_block + layout.key_block_bytes;
  if (layout.dtype == DType::kF32) {
    StoreKeyPart(layout, key_block, slot, 0, layout.shape.head_dim, key);
    StoreValuePart(layout, value_block, slot, 0, layout.shape.head_dim, value);
    return;
  }
  if (layout.dtype == DType::kF8E4M3) {
    StoreFp8Token(layout, key_block, slot, layout.shape.head_dim, key, StoreKeyPart);
    StoreFp8Token(layout, value_block, slot, layout.shape.v_head_dim, value, StoreValuePart);
    return;
  }
  constexpr int32_t kPart = 64;
  const auto round = layout.dtype == DType::kF16 ? FloatToFp16 : FloatToBf16;
  for (int32_t first = 0; first < layout.shape.head_dim; first += kPart) {
    const int32_t count = layout.shape.head_dim - first < kPart ? layout.shape.head_dim - first : kPart;
    uint16_t bits[kPart] = {};
    for (int32_t d = 0; d < count; ++d) bits[d] = round(key[first + d]);
    StoreKeyPart(layout, key_block, slot, first, count, bits);
    for (int32_t d = 0; d < count; ++d) bits[d] = round(value[first + d]);
    StoreValuePart(layout, value_block, slot, first, count, bits);
  }
}

// One element of a block as FP32 (of E4M3 without its scale); index from KeyIndex or ValueIndex. For tests and tools.
inline float LoadKvElement(const KvLayout& layout, const std::byte* block, size_t index) {
  switch (layout.dtype) {
    case DType::kF32:
      return reinterpret_cast<const float*>(block)[index];
    case DType::kF16:
      return Fp16ToFloat(reinterpret_cast<const uint16_t*>(block)[index]);
    case DType::kF8E4M3:
      return E4M3ToFloat(static_cast<uint8_t>(block[index]));
    default:
      return Bf16ToFloat(reinterpret_cast<const uint16_t*>(block)[index]);
  }
}

// Writes one element and leaves its pair partner unchanged. For tests and tools.
inline void StoreKvElement(const KvLayout& layout, std::byte* block, size_t index, float value) {
  switch (layout.dtype) {
    case DType::kF32:
      reinterpret_cast<float*>(block)[index] = value;
      break;
    case DType::kF16:
      reinterpret_cast<uint16_t*>(block)[index] = FloatToFp16(value);
      break;
    case DType::kF8E4M3:
      block[index] = static_cast<std::byte>(FloatToE4M3(value));
      break;
    default:
      reinterpret_cast<uint16_t*>(block)[index] = FloatToBf16(value);
      break;
  }
}

// Reads one token's key or value back. out: [head_dim].
inline void LoadKey(const KvLayout& layout, const std::byte* key_block, int32_t slot, float* out) {
  for (int32_t d = 0; d < layout.shape.head_dim; ++d) {
    out[d] = LoadKvElement(layout, key_block, KeyIndex(layout, slot, d));
    if (layout.dtype == DType::kF8E4M3) out[d] *= LoadFp8Scale(key_block, layout.shape.head_dim, slot);
  }
}
inline void LoadValue(const KvLayout& layout, const std::byte* value_block, int32_t slot, float* out) {
  for (int32_t d = 0; d < layout.shape.v_head_dim; ++d) {
    out[d] = LoadKvElement(layout, value_block, ValueIndex(layout, slot, d));
    if (layout.dtype == DType::kF8E4M3) out[d] *= LoadFp8Scale(value_block, layout.shape.v_head_dim, slot);
  }
}

}  // namespace dunlin::kernels::cpu
