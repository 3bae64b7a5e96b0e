// The order of elements inside a K or V block of a CPU KV page: the only place that knows it, with the tile kernels of
// kernels/cpu/attention/ that read it. A block holds one layer, one KV head and one page: T = tokens_per_page tokens.
//
//          K block            V block
//   BF16   [D/2][T=16][2]     [T/2][D][2]    D = head_dim padded to even with zeros; pairs for the BF16 dot product
//   FP16   [d][T=16]          [T][d]         d = head_dim
//   FP32   [d][T=8]           [T][d]
//
// K is key-major inside, so that one vector holds a tile's keys and a score is one chain over d in ascending order.
// Slots never written may hold anything. Writing the even token of a BF16 V pair zeroes its partner, so the tokens of a
// page are written in ascending order, and the two of a pair by one thread. Thread rule: otherwise plain memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::kernels::cpu {

inline size_t KvBlockOffset(const KvLayout& layout, int32_t page, int32_t layer, int32_t kv_head) {
  return static_cast<size_t>(page) * layout.page_bytes + static_cast<size_t>(layer) * layout.layer_bytes +
         static_cast<size_t>(kv_head) * layout.head_bytes;
}

// The K block of (page, layer, KV head); its V block follows at + layout.block_bytes. 64-byte aligned where the pool is.
inline std::byte* KeyBlock(void* kv_pool, const KvLayout& layout, int32_t page, int32_t layer, int32_t kv_head) {
  return static_cast<std::byte*>(kv_pool) + KvBlockOffset(layout, page, layer, kv_head);
}
inline const std::byte* KeyBlock(const void* kv_pool, const KvLayout& layout, int32_t page, int32_t layer,
                                 int32_t kv_head) {
  return static_cast<const std::byte*>(kv_pool) + KvBlockOffset(layout, page, layer, kv_head);
}

// Element index of (token slot, dimension) inside a block.
constexpr size_t KeyIndex(const KvLayout& layout, int32_t slot, int32_t dim) {
  const size_t tokens = static_cast<size_t>(layout.tokens_per_page);
  const size_t s = static_cast<size_t>(slot);
  const size_t d = static_cast<size_t>(dim);
  return layout.dtype == DType::kBF16 ? (d / 2 * tokens + s) * 2 + d % 2 : d * tokens + s;
}
constexpr size_t ValueIndex(const KvLayout& layout, int32_t slot, int32_t dim) {
  const size_t head_dim = static_cast<size_t>(layout.shape.head_dim);
  const size_t s = static_cast<size_t>(slot);
  const size_t d = static_cast<size_t>(dim);
  return layout.dtype == DType::kBF16 ? (s / 2 * ((head_dim + 1) / 2 * 2) + d) * 2 + s % 2 : s * head_dim + d;
}

// Writes one token's key, rounded to the page dtype. key: [head_dim].
inline void StoreKey(const KvLayout& layout, std::byte* key_block, int32_t slot, const float* key) {
  const int32_t head_dim = layout.shape.head_dim;
  if (layout.dtype == DType::kF32) {
    auto* block = reinterpret_cast<float*>(key_block);
    for (int32_t d = 0; d < head_dim; ++d) block[d * 8 + slot] = key[d];
  } else if (layout.dtype == DType::kF16) {
    auto* block = reinterpret_cast<uint16_t*>(key_block);
    for (int32_t d = 0; d < head_dim; ++d) block[d * 16 + slot] = FloatToFp16(key[d]);
  } else {
    auto* block = reinterpret_cast<uint16_t*>(key_block) + slot * 2;
    for (int32_t d = 0; d < head_dim; ++d) block[d / 2 * 32 + d % 2] = FloatToBf16(key[d]);
    if (head_dim % 2 != 0) block[head_dim / 2 * 32 + 1] = 0;
  }
}

// Writes one token's value. value: [head_dim]. The even token of a BF16 pair zeroes the odd one.
inline void StoreValue(const KvLayout& layout, std::byte* value_block, int32_t slot, const float* value) {
  const int32_t head_dim = layout.shape.head_dim;
  if (layout.dtype == DType::kF32) {
    std::memcpy(value_block + static_cast<size_t>(slot) * static_cast<size_t>(head_dim) * sizeof(float), value,
                static_cast<size_t>(head_dim) * sizeof(float));
  } else if (layout.dtype == DType::kF16) {
    auto* row = reinterpret_cast<uint16_t*>(value_block) + static_cast<ptrdiff_t>(slot) * head_dim;
    for (int32_t d = 0; d < head_dim; ++d) row[d] = FloatToFp16(value[d]);
  } else {
    const int32_t padded_dim = (head_dim + 1) / 2 * 2;
    auto* row = reinterpret_cast<uint16_t*>(value_block) + static_cast<ptrdiff_t>(slot / 2) * padded_dim * 2;
    for (int32_t d = 0; d < padded_dim; ++d) {
      const uint16_t bits = d < head_dim ? FloatToBf16(value[d]) : uint16_t{0};
      if (slot % 2 == 0) {
        row[2 * d] = bits;
        row[2 * d + 1] = 0;
      } else {
        row[2 * d + 1] = bits;
      }
    }
  }
}

// One element of a block as FP32; index from KeyIndex or ValueIndex. For tests and tools.
inline float LoadKvElement(const KvLayout& layout, const std::byte* block, size_t index) {
  switch (layout.dtype) {
    case DType::kF32: return reinterpret_cast<const float*>(block)[index];
    case DType::kF16: return Fp16ToFloat(reinterpret_cast<const uint16_t*>(block)[index]);
    default: return Bf16ToFloat(reinterpret_cast<const uint16_t*>(block)[index]);
  }
}

// Writes one element, its pair partner left as it is. For tests and tools.
inline void StoreKvElement(const KvLayout& layout, std::byte* block, size_t index, float value) {
  switch (layout.dtype) {
    case DType::kF32: reinterpret_cast<float*>(block)[index] = value; break;
    case DType::kF16: reinterpret_cast<uint16_t*>(block)[index] = FloatToFp16(value); break;
    default: reinterpret_cast<uint16_t*>(block)[index] = FloatToBf16(value); break;
  }
}

// Reads one token's key or value back. out: [head_dim].
inline void LoadKey(const KvLayout& layout, const std::byte* key_block, int32_t slot, float* out) {
  for (int32_t d = 0; d < layout.shape.head_dim; ++d) {
    out[d] = LoadKvElement(layout, key_block, KeyIndex(layout, slot, d));
  }
}
inline void LoadValue(const KvLayout& layout, const std::byte* value_block, int32_t slot, float* out) {
  for (int32_t d = 0; d < layout.shape.head_dim; ++d) {
    out[d] = LoadKvElement(layout, value_block, ValueIndex(layout, slot, d));
  }
}

}  // namespace dunlin::kernels::cpu
