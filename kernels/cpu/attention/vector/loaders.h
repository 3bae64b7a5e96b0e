// SPDX-License-Identifier: Apache-2.0
// How the vector kernels read the blocks of each KV dtype (kv_block.h). Included by the vector files only, which derive
// their own loaders from these; always inlined, so no code is shared between them.
//
// Keys: Load gives 16 keys of one step of a chain; a step is kParts products. Values: Load gives 16 dimensions of one
// product; a step of the chain is kKeys keys in kParts products: 1 in 1; a BF16 pair widened, 2 in 2; a dot product of
// pairs, 2 in 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/vector/softmax.h"

namespace dunlin::kernels::cpu::attention {

// One FP32 key or dimension a product: what the loaders share wherever P and Q are FP32.
template <typename LanesOfFile>
struct FloatStep {
  using Lanes = LanesOfFile;
  using P = float;
  using Vector = typename Lanes::Floats;
  using Factor = typename Lanes::Factor;
  static constexpr bool kWidens = true;  // many rows take the tile widened once (vector/wide_tiles.h)
  static constexpr bool kScalesKeys = false;
  static constexpr int kKeys = 1;
  static constexpr int kParts = 1;
  DUNLIN_INLINE Factor Broadcast(const void* p) { return Lanes::ToFactor(*static_cast<const float*>(p)); }
  DUNLIN_INLINE Vector Accumulate(Vector sum, Factor a, Vector b) { return Lanes::Accumulate(sum, a, b); }
  DUNLIN_INLINE Vector FirstKey(Vector values) { return values; }
  DUNLIN_INLINE Vector LastKey(Vector values) { return values; }
  // A vector of values as it is: no scale per token.
  DUNLIN_INLINE Vector ScaleValue(const std::byte* /*block*/, int64_t /*slot*/, int /*head_dim*/, Vector value) {
    return value;
  }
  DUNLIN_INLINE Vector ExpRow(const float* s, int count, float scale, float scaled_max, Vector sum, float* p) {
    return FloatExpRow<Lanes>(s, count, scale, scaled_max, sum, p);
  }
};

// FP32: K [d][8 tokens], V [8 tokens][d]. A vector of 16 keys comes from two pages.
template <typename Lanes>
struct F32Keys : FloatStep<Lanes> {
  static constexpr int kStepBytes = 32;  // of a page
  static constexpr int kPages = 8;       // of 64 keys
  DUNLIN_INLINE int64_t Steps(int head_dim) { return head_dim; }
  DUNLIN_INLINE typename Lanes::Floats Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    return Lanes::LoadHalves(reinterpret_cast<const float*>(blocks[2 * vector]) + step * 8,
                             reinterpret_cast<const float*>(blocks[2 * vector + 1]) + step * 8);
  }
};
template <typename Lanes>
struct F32Values : FloatStep<Lanes> {
  static constexpr int kTokens = 8;
  static constexpr int64_t kDimBytes = 4;
  DUNLIN_INLINE int64_t StepBytes(int head_dim) { return head_dim * int64_t{4}; }
  DUNLIN_INLINE typename Lanes::Floats Load(const std::byte* step, int /*part*/, int vector,
                                            typename Lanes::Mask tail) {
    return Lanes::LoadMasked(reinterpret_cast<const float*>(step) + 16 * vector, tail);
  }
};

// FP16: K [d][16 tokens], V [16 tokens][d], widened exactly.
template <typename Lanes>
struct F16Keys : FloatStep<Lanes> {
  static constexpr int kStepBytes = 32;
  static constexpr int kPages = 4;
  DUNLIN_INLINE int64_t Steps(int head_dim) { return head_dim; }
  DUNLIN_INLINE typename Lanes::Floats Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    return Lanes::LoadFp16(blocks[vector] + step * 32);
  }
};
template <typename Lanes>
struct F16Values : FloatStep<Lanes> {
  static constexpr int kTokens = 16;
  static constexpr int64_t kDimBytes = 2;
  DUNLIN_INLINE int64_t StepBytes(int head_dim) { return head_dim * int64_t{2}; }
  DUNLIN_INLINE typename Lanes::Floats Load(const std::byte* step, int /*part*/, int vector,
                                            typename Lanes::Mask tail) {
    return Lanes::LoadFp16Masked(step + 32 * vector, tail);
  }
};

// BF16: K [D/2][16 tokens][2], V [8 token pairs][D][2], widened exactly. A word holds a pair: two dimensions of a key,
// or two keys of a dimension.
template <typename Lanes>
struct Bf16Keys : FloatStep<Lanes> {
  static constexpr int kParts = 2;
  static constexpr int kStepBytes = 64;
  static constexpr int kPages = 4;
  DUNLIN_INLINE int64_t Steps(int head_dim) { return (head_dim + 1) / 2; }
  DUNLIN_INLINE typename Lanes::Floats Load(const std::byte* const* blocks, int vector, int64_t step, int part) {
    const auto pairs = Lanes::LoadInts(blocks[vector] + step * 64);
    return part == 0 ? Lanes::FirstOfPairs(pairs) : Lanes::SecondOfPairs(pairs);
  }
};
// Where the value pairs lie.
struct PairBlock {
  static constexpr int kTokens = 16;
  static constexpr int64_t kDimBytes = 4;
  DUNLIN_INLINE int64_t StepBytes(int head_dim) { return (head_dim + 1) / 2 * int64_t{8}; }
};
template <typename Lanes>
struct Bf16Values : FloatStep<Lanes>, PairBlock {
  static constexpr int kKeys = 2;
  static constexpr int kParts = 2;
  DUNLIN_INLINE typename Lanes::Floats Load(const std::byte* step, int part, int vector, typename Lanes::Mask tail) {
    const auto pairs = Lanes::LoadIntsMasked(step + 64 * vector, tail);
    return part == 0 ? Lanes::FirstOfPairs(pairs) : Lanes::SecondOfPairs(pairs);
  }
};

// E4M3: K [d][32 tokens], V [32 tokens][d], one FP32 scale per token behind the codes. Codes widen exactly:
// sign-extended to 16 bits and moved up by 7, a code has its exponent and fraction where FP16 has them, denormals too,
// and is its value times 2^-8; the 2^8 joins the scale. A key's scale multiplies its finished score, a value's scale
// the widened value. (The NaN code widens to 480; a token that held a NaN has a scale that is not finite, so that it
// shows.)
struct CodeBlock {
  static constexpr int kPageTokens = 32;
  static constexpr float kWidening = 256.0F;
  DUNLIN_INLINE const float* Scales(const std::byte* block, int head_dim) {
    return reinterpret_cast<const float*>(block + (head_dim + 1) / 2 * 2 * kPageTokens);
  }
};
template <typename Lanes>
struct F8Keys : FloatStep<Lanes> {
  static constexpr bool kScalesKeys = true;
  static constexpr int kStepBytes = 32;
  static constexpr int kPages = 2;
  DUNLIN_INLINE int64_t Steps(int head_dim) { return head_dim; }
  DUNLIN_INLINE typename Lanes::Floats Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    return Lanes::LoadE4M3Over256(blocks[vector / 2] + step * 32 + vector % 2 * 16);
  }
  DUNLIN_INLINE typename Lanes::Floats Scale(const std::byte* const* blocks, int vector, int head_dim) {
    const auto scales = Lanes::Load(CodeBlock::Scales(blocks[vector / 2], head_dim) + vector % 2 * 16);
    return Lanes::Mul(scales, Lanes::Broadcast(CodeBlock::kWidening));
  }
};
template <typename Lanes>
struct F8Values : FloatStep<Lanes> {
  static constexpr int kTokens = CodeBlock::kPageTokens;
  static constexpr int64_t kDimBytes = 1;
  DUNLIN_INLINE int64_t StepBytes(int head_dim) { return head_dim; }
  DUNLIN_INLINE typename Lanes::Floats Load(const std::byte* step, int /*part*/, int vector,
                                            typename Lanes::Mask tail) {
    return Lanes::LoadE4M3Over256Masked(step + 16 * vector, tail);
  }
  DUNLIN_INLINE typename Lanes::Floats ScaleValue(const std::byte* block, int64_t slot, int head_dim,
                                                  typename Lanes::Floats value) {
    return Lanes::Mul(value, Lanes::Broadcast(CodeBlock::Scales(block, head_dim)[slot] * CodeBlock::kWidening));
  }
};

}  // namespace dunlin::kernels::cpu::attention
