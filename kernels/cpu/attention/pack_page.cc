// SPDX-License-Identifier: Apache-2.0
// Pages by vectors of four words.
#include "kernels/cpu/attention/pack_page.h"

#include <cstring>

#include "kernels/cpu/attention/kv_block.h"

namespace dunlin::kernels::cpu {
namespace {

// FP16 elements.
using Halves [[gnu::vector_size(16), gnu::aligned(2), gnu::may_alias]] = uint16_t;
// Words of 32 bits: an FP32 element, or two BF16 elements that are adjacent both in rows and in blocks.
using Words [[gnu::vector_size(16), gnu::aligned(2), gnu::may_alias]] = uint32_t;

// out[w][t] = rows[t][w] of a whole page's rows, four by four. words: a multiple of 4; kTokens: of a page.
template <int kTokens>
void TransposeWords(const std::byte* rows, size_t row_bytes, size_t words, std::byte* out) {
  for (size_t w = 0; w < words; w += 4) {
    for (size_t t = 0; t < kTokens; t += 4) {
      Words row[4];
      for (size_t i = 0; i < 4; ++i) row[i] = *reinterpret_cast<const Words*>(rows + (t + i) * row_bytes + w * 4);
      const Words low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
      const Words low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
      const Words high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
      const Words high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
      const Words column[4] = {
          __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
          __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
      for (size_t i = 0; i < 4; ++i) *reinterpret_cast<Words*>(out + ((w + i) * kTokens + t) * 4) = column[i];
    }
  }
}

// The values of two BF16 tokens, pair by pair.
void PackValuePair(const uint16_t* first, const uint16_t* second, int32_t dim, uint16_t* pairs) {
  for (int64_t d = 0; d < dim; ++d) {
    pairs[2 * d] = first[d];
    pairs[2 * d + 1] = second[d];
  }
}

// The same for FP16 elements, eight by eight: interleaves elements, then words, then 8-byte halves. dims: a multiple
// of 8.
template <int kTokens>
void TransposeHalves(const std::byte* rows, size_t row_bytes, size_t dims, std::byte* out) {
  constexpr size_t kElement = sizeof(uint16_t);
  for (size_t d = 0; d < dims; d += 8) {
    for (size_t t = 0; t < kTokens; t += 8) {
      Halves a[8];
      Halves b[8];
      for (size_t i = 0; i < 8; ++i) a[i] = *reinterpret_cast<const Halves*>(rows + (t + i) * row_bytes + d * kElement);
      for (size_t i = 0; i < 8; i += 2) {
        b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
      }
      for (size_t i = 0; i < 8; i += 4) {
        for (size_t j = i; j < i + 2; ++j) {
          a[j] = __builtin_shufflevector(b[j], b[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
          a[j + 2] = __builtin_shufflevector(b[j], b[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
      }
      for (size_t i = 0; i < 4; ++i) {
        b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
      }
      for (size_t i = 0; i < 8; ++i) *reinterpret_cast<Halves*>(out + ((d + i) * kTokens + t) * kElement) = b[i];
    }
  }
}

}  // namespace

bool PackPageKeys(const KvLayout& layout, const std::byte* rows, size_t row_bytes, std::byte* key_block) {
  const size_t key_bytes = static_cast<size_t>(layout.shape.head_dim) * SizeOf(layout.dtype);
  if (key_bytes % sizeof(Words) != 0) return false;
  if (layout.dtype == DType::kF32) {
    TransposeWords<TokensPerPage(DType::kF32)>(rows, row_bytes, key_bytes / 4, key_block);
  } else if (layout.dtype == DType::kBF16) {
    TransposeWords<TokensPerPage(DType::kBF16)>(rows, row_bytes, key_bytes / 4, key_block);
  } else if (layout.dtype == DType::kF16) {
    TransposeHalves<TokensPerPage(DType::kF16)>(rows, row_bytes, key_bytes / 2, key_block);
  } else {
    return false;
  }
  return true;
}

void PackPageValues(const KvLayout& layout, const std::byte* rows, size_t row_bytes, int32_t tokens,
                    std::byte* value_block) {
  const int32_t dim = layout.shape.v_head_dim;
  int32_t t = 0;
  if (layout.dtype == DType::kBF16 && dim % 2 == 0) {
    auto* pairs = reinterpret_cast<uint16_t*>(value_block);
    for (; t + 2 <= tokens; t += 2, rows += 2 * row_bytes, pairs += int64_t{2} * dim) {
      PackValuePair(reinterpret_cast<const uint16_t*>(rows), reinterpret_cast<const uint16_t*>(rows + row_bytes), dim,
                    pairs);
    }
  }
  for (; t < tokens; ++t, rows += row_bytes) StoreValuePart(layout, value_block, t, 0, dim, rows);
}

}  // namespace dunlin::kernels::cpu
