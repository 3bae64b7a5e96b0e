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

// out[c][r] = in[r][c] for words, four by four. rows, columns: multiples of 4; strides in bytes.
[[gnu::always_inline]] inline void TransposeWords(const std::byte* in, size_t in_stride, size_t rows, size_t columns,
                                                  std::byte* out, size_t out_stride) {
  for (size_t c = 0; c < columns; c += 4) {
    for (size_t r = 0; r < rows; r += 4) {
      Words row[4];
      for (size_t i = 0; i < 4; ++i) row[i] = *reinterpret_cast<const Words*>(in + (r + i) * in_stride + c * 4);
      const Words low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
      const Words low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
      const Words high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
      const Words high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
      const Words column[4] = {
          __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
          __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
      for (size_t i = 0; i < 4; ++i) *reinterpret_cast<Words*>(out + (c + i) * out_stride + r * 4) = column[i];
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

// TransposeWords for FP16 elements, eight by eight: interleaves elements, then words, then 8-byte halves. rows,
// columns: multiples of 8.
[[gnu::always_inline]] inline void TransposeHalves(const std::byte* in, size_t in_stride, size_t rows, size_t columns,
                                                   std::byte* out, size_t out_stride) {
  constexpr size_t kElement = sizeof(uint16_t);
  for (size_t c = 0; c < columns; c += 8) {
    for (size_t r = 0; r < rows; r += 8) {
      Halves a[8];
      Halves b[8];
      for (size_t i = 0; i < 8; ++i) a[i] = *reinterpret_cast<const Halves*>(in + (r + i) * in_stride + c * kElement);
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
      for (size_t i = 0; i < 8; ++i) *reinterpret_cast<Halves*>(out + (c + i) * out_stride + r * kElement) = b[i];
    }
  }
}

// Values of a BF16 page from keys, both by pairs: words (d, d + 1) of tokens t and t + 1 become the words d and d + 1
// of the two tokens. Eight bytes of four tokens at a time. keys, values: [pairs][T] words and [T / 2][2 pairs].
void UnpackPairs(const std::byte* keys, size_t pairs, std::byte* values) {
  constexpr size_t kTokens = TokensPerPage(DType::kBF16);
  for (size_t t = 0; t < kTokens; t += 4) {
    std::byte* const first = values + t / 2 * pairs * 8;
    for (size_t d = 0; d < pairs; ++d) {
      const Halves four = *reinterpret_cast<const Halves*>(keys + (d * kTokens + t) * 4);
      const Halves two = __builtin_shufflevector(four, four, 0, 2, 1, 3, 4, 6, 5, 7);
      std::memcpy(first + d * 8, &two, 8);
      std::memcpy(first + (pairs + d) * 8, reinterpret_cast<const std::byte*>(&two) + 8, 8);
    }
  }
}

}  // namespace

bool PackPageKeys(const KvLayout& layout, const std::byte* rows, size_t row_bytes, std::byte* key_block) {
  const size_t key_bytes = static_cast<size_t>(layout.shape.head_dim) * SizeOf(layout.dtype);
  if (key_bytes % sizeof(Words) != 0) return false;
  if (layout.dtype == DType::kF32) {
    constexpr size_t kTokens = TokensPerPage(DType::kF32);
    TransposeWords(rows, row_bytes, kTokens, key_bytes / 4, key_block, kTokens * 4);
  } else if (layout.dtype == DType::kBF16) {
    constexpr size_t kTokens = TokensPerPage(DType::kBF16);
    TransposeWords(rows, row_bytes, kTokens, key_bytes / 4, key_block, kTokens * 4);
  } else if (layout.dtype == DType::kF16) {
    constexpr size_t kTokens = TokensPerPage(DType::kF16);
    TransposeHalves(rows, row_bytes, kTokens, key_bytes / 2, key_block, kTokens * 2);
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

void UnpackPageValues(const KvLayout& layout, const std::byte* key_block, int32_t keys, std::byte* value_block) {
  const auto tokens = static_cast<size_t>(layout.tokens_per_page);
  const auto dim = static_cast<size_t>(layout.shape.v_head_dim);
  const size_t element = SizeOf(layout.dtype);
  const std::byte* in =
      key_block + static_cast<size_t>(layout.shape.head_dim - layout.shape.v_head_dim) * tokens * element;
  if (layout.dtype == DType::kBF16) {
    const size_t pairs = (dim + 1) / 2;
    UnpackPairs(in, pairs, value_block);
    if (keys % 2 == 0) return;
    auto* last = reinterpret_cast<PairWord*>(value_block) + static_cast<size_t>(keys / 2) * 2 * pairs;
    for (size_t d = 0; d < 2 * pairs; ++d) last[d] &= 0xFFFFU;
    return;
  }
  size_t whole = 0;  // dimensions that go by vectors
  if (layout.dtype == DType::kF32) {
    whole = dim / 4 * 4;
    TransposeWords(in, tokens * element, whole, TokensPerPage(DType::kF32), value_block, dim * element);
  } else {
    whole = dim / 8 * 8;
    TransposeHalves(in, tokens * element, whole, TokensPerPage(DType::kF16), value_block, dim * element);
  }
  for (size_t d = whole; d < dim; ++d) {
    for (size_t t = 0; t < tokens; ++t) {
      std::memcpy(value_block + (t * dim + d) * element, in + (d * tokens + t) * element, element);
    }
  }
}

}  // namespace dunlin::kernels::cpu
