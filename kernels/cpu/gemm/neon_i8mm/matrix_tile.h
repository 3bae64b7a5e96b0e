// SPDX-License-Identifier: Apache-2.0
// Slices for the instructions that multiply matrices: eight bytes of K (two steps) of two rows with those of two
// columns into 2 x 2 sums (SMMLA, BFMMLA). Included by translation units with such an instruction only.
//
// Operands are the 16 bytes that an instruction reads. Of weights they lie in the widened slice, which has the bytes of
// a dense one: [pair of steps][half][vector][4 operands of two columns], the first half of a vector's columns in the
// place of the first step. Of activations a tile makes them of two rows. Sums are in rows outside of a tile.
//
// Products: kFiller, the four bytes of activations whose product with zeros leaves a sum as it is, and
// Multiply(sums, activations, weights), the chain of both steps in ascending order; in inline assembly, because GCC 12
// copies the sums of intrinsics.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/cpu/context/neon_gemm_kernels.h"
#include "kernels/cpu/gemm/vector/block.h"
#include "kernels/cpu/simd/lanes_neon.h"

namespace dunlin::kernels::cpu::simd {

// VectorGemm's tiles of slices that are multiplied in a way of their own.
template <typename V, typename Multiply, typename Panel, typename Widen, Locality kLocality, bool kPrefetches,
          int kRows, int kVectors>
requires(Panel::kAccumulatesItself) DUNLIN_INLINE
    void AccumulateSlice(const TileRows& rows, const PanelSlice& slice, Sums<V, kRows, kVectors>& sums) {
  Panel::template Accumulate<Widen, kLocality, kPrefetches>(rows, slice, sums);
}

}  // namespace dunlin::kernels::cpu::simd

namespace dunlin::kernels::cpu::neon_i8mm {
namespace {

using neon::Lanes;

inline constexpr int kOperands = static_cast<int>(simd::kLanes) / 2;  // of a vector of columns
inline constexpr int64_t kStepBytes = simd::kPanelVectors * 64;       // of a slice
inline constexpr int64_t kPairBytes = 2 * kStepBytes;

// Where operand `index` lies after the start of its pair of steps.
constexpr int64_t OperandOffset(int index) {
  constexpr int kHalf = kOperands / 2;
  return index < kHalf ? index * 16 : kStepBytes + (index - kHalf) * 16;
}

template <int kQuarter, typename Floats>
DUNLIN_INLINE auto& QuarterOf(Floats& x) {
  if constexpr (kQuarter == 0) return x.low.low;
  if constexpr (kQuarter == 1) return x.low.high;
  if constexpr (kQuarter == 2) return x.high.low;
  if constexpr (kQuarter == 3) return x.high.high;
}

DUNLIN_INLINE float32x4_t FirstPairs(float32x4_t a, float32x4_t b) {
  return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
DUNLIN_INLINE float32x4_t SecondPairs(float32x4_t a, float32x4_t b) {
  return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}

// Sums of a tile, [pair of rows][operand of weights]: (row 0, column 0), (0, 1), (1, 0), (1, 1). The second row of an
// odd number's last pair is the first again.
template <int kRows>
struct MatrixSums {
  static constexpr int kPairs = (kRows + 1) / 2;
  float32x4_t at[kPairs][kOperands];
};

// The sums of a quarter of the columns.
template <int kQuarter, int kRows>
DUNLIN_INLINE void FromRows(const simd::Sums<Lanes, kRows, 1>& rows, MatrixSums<kRows>& sums) {
#pragma GCC unroll 3
  for (int i = 0; i < MatrixSums<kRows>::kPairs; ++i) {
    const float32x4_t first = QuarterOf<kQuarter>(rows.at[2 * i][0]);
    const float32x4_t second = QuarterOf<kQuarter>(rows.at[std::min(2 * i + 1, kRows - 1)][0]);
    sums.at[i][2 * kQuarter] = FirstPairs(first, second);
    sums.at[i][2 * kQuarter + 1] = SecondPairs(first, second);
  }
}
template <int kQuarter, int kRows>
DUNLIN_INLINE void ToRows(const MatrixSums<kRows>& sums, simd::Sums<Lanes, kRows, 1>& rows) {
#pragma GCC unroll 3
  for (int i = 0; i < MatrixSums<kRows>::kPairs; ++i) {
    const float32x4_t left = sums.at[i][2 * kQuarter];
    const float32x4_t right = sums.at[i][2 * kQuarter + 1];
    QuarterOf<kQuarter>(rows.at[2 * i][0]) = FirstPairs(left, right);
    if (2 * i + 1 < kRows) QuarterOf<kQuarter>(rows.at[std::min(2 * i + 1, kRows - 1)][0]) = SecondPairs(left, right);
  }
}

// A slice whose weights are operands. kSteps, kVectorBytes: of a dense one, whose place it takes.
template <typename Products>
struct MatrixPanel {
  static constexpr bool kAccumulatesItself = true;
  static constexpr int kSteps = 1;
  static constexpr int64_t kVectorBytes = 64;

  template <typename Widen, simd::Locality kLocality, bool kPrefetches, int kRows>
  DUNLIN_INLINE void Accumulate(const simd::TileRows& rows, const simd::PanelSlice& slice,
                                simd::Sums<Lanes, kRows, 1>& sums) {
    constexpr int kChunk = std::max(4, Widen::kUnits);  // steps at once: four, or those of a vector of codes
    constexpr int kLines = simd::TileShape<Lanes>::kNextLines * kChunk / 4;
    const int64_t whole = slice.units / kChunk * kChunk;
    const int left = static_cast<int>(slice.units - whole);
    MatrixSums<kRows> matrix;
    FromRows<0>(sums, matrix);
    FromRows<1>(sums, matrix);
    FromRows<2>(sums, matrix);
    FromRows<3>(sums, matrix);
    const std::byte* next = slice.next;
    if (whole > 0) WidenSteps<Widen, kChunk>(slice, 0, kChunk);
    for (int64_t step = 0; step < whole; step += kChunk) {
      if (step + kChunk < whole) WidenSteps<Widen, kChunk>(slice, step + kChunk, kChunk);
#pragma GCC unroll 12
      for (int line = 0; line < (kPrefetches ? kLines : 0); ++line) __builtin_prefetch(next + line * 64, 0, kLocality);
#pragma GCC unroll 2
      for (int s = 0; s < kChunk; s += 4) {
        MultiplyFour<kRows>(rows, step + s, slice.at + (step + s) * kStepBytes, matrix);
      }
      next += kLines * 64;
    }
    if (left > 0) {
      WidenSteps<Widen, kChunk>(slice, whole, left);
      for (int64_t step = whole; step < slice.units; step += 2) {
        MultiplyPair<kRows>(rows, step, step + 1 < slice.units, slice.at + step * kStepBytes, matrix);
      }
    }
    ToRows<0>(matrix, sums);
    ToRows<1>(matrix, sums);
    ToRows<2>(matrix, sums);
    ToRows<3>(matrix, sums);
  }

 private:
  // `steps` of kChunk steps of codes to operands; an odd number is filled up with zeros.
  template <typename Widen, int kChunk>
  DUNLIN_INLINE void WidenSteps(const simd::PanelSlice& slice, int64_t step, int steps) {
    if constexpr (Widen::kUnits > 0) {
      constexpr int64_t kCodeBytes = simd::kPanelVectors * Widen::kVectorBytes;
      const std::byte* codes = slice.codes + step / Widen::kUnits * kCodeBytes;
      std::byte* to = slice.widened + step * kStepBytes;
#pragma GCC unroll 3
      for (int v = 0; v < simd::kPanelVectors; ++v) {
        Lanes::Floats dense[kChunk];
#pragma GCC unroll 4
        for (int u = 0; u < kChunk; u += Widen::kUnits) {
          Lanes::Floats unit[Widen::kUnits];
          if (u < steps) {
            Widen::Decode(codes + u / Widen::kUnits * kCodeBytes + v * Widen::kVectorBytes, unit);
          } else {
            for (Lanes::Floats& zeros : unit) zeros = Lanes::Zero();
          }
#pragma GCC unroll 8
          for (int s = 0; s < Widen::kUnits; ++s) dense[u + s] = unit[s];
        }
#pragma GCC unroll 4
        for (int s = 0; s < kChunk; s += 2) {
          if (s < steps) StoreOperands(to + s * kStepBytes + v * kVectorBytes, dense[s], dense[s + 1]);
        }
      }
    }
  }
  DUNLIN_INLINE void StoreOperands(std::byte* to, const Lanes::Floats& first, const Lanes::Floats& second) {
    StoreQuarter<0>(to, first, second);
    StoreQuarter<1>(to, first, second);
    StoreQuarter<2>(to, first, second);
    StoreQuarter<3>(to, first, second);
  }
  template <int kQuarter>
  DUNLIN_INLINE void StoreQuarter(std::byte* to, const Lanes::Floats& first, const Lanes::Floats& second) {
    const float32x4_t a = QuarterOf<kQuarter>(first);
    const float32x4_t b = QuarterOf<kQuarter>(second);
    neon::Quarter::Store(to + OperandOffset(2 * kQuarter), vzip1q_f32(a, b));
    neon::Quarter::Store(to + OperandOffset(2 * kQuarter + 1), vzip2q_f32(a, b));
  }

  // Two steps of weights at `at` with a pair of rows' operands each.
  template <int kRows>
  DUNLIN_INLINE void MultiplyOperands(const float32x4_t (&activations)[MatrixSums<kRows>::kPairs], const std::byte* at,
                                      MatrixSums<kRows>& sums) {
#pragma GCC unroll 8
    for (int j = 0; j < kOperands; ++j) {
      const float32x4_t weights = neon::Quarter::Load(at + OperandOffset(j));
#pragma GCC unroll 3
      for (int i = 0; i < MatrixSums<kRows>::kPairs; ++i) {
        sums.at[i][j] = Products::Multiply(sums.at[i][j], activations[i], weights);
      }
    }
  }
  template <int kRows>
  DUNLIN_INLINE void MultiplyFour(const simd::TileRows& rows, int64_t step, const std::byte* at,
                                  MatrixSums<kRows>& sums) {
    constexpr int kPairs = MatrixSums<kRows>::kPairs;
    float32x4_t first[kPairs];
    float32x4_t second[kPairs];
#pragma GCC unroll 3
    for (int i = 0; i < kPairs; ++i) {
      const float32x4_t a = neon::Quarter::Load(&simd::TileRows::At(rows, 2 * i, step));
      const float32x4_t b = neon::Quarter::Load(&simd::TileRows::At(rows, std::min(2 * i + 1, kRows - 1), step));
      first[i] = FirstPairs(a, b);
      second[i] = SecondPairs(a, b);
    }
    MultiplyOperands<kRows>(first, at, sums);
    MultiplyOperands<kRows>(second, at + kPairBytes, sums);
  }
  // Two steps, the second of which may be past the slice.
  template <int kRows>
  DUNLIN_INLINE void MultiplyPair(const simd::TileRows& rows, int64_t step, bool both, const std::byte* at,
                                  MatrixSums<kRows>& sums) {
    constexpr int kPairs = MatrixSums<kRows>::kPairs;
    float32x4_t activations[kPairs];
#pragma GCC unroll 3
    for (int i = 0; i < kPairs; ++i) {
      const uint32x2_t a = LoadPair(&simd::TileRows::At(rows, 2 * i, step), both);
      const uint32x2_t b = LoadPair(&simd::TileRows::At(rows, std::min(2 * i + 1, kRows - 1), step), both);
      activations[i] = vreinterpretq_f32_u32(vcombine_u32(a, b));
    }
    MultiplyOperands<kRows>(activations, at, sums);
  }
  DUNLIN_INLINE uint32x2_t LoadPair(const simd::AliasedFloat* from, bool both) {
    uint32_t steps[2] = {0, Products::kFiller};
    std::memcpy(steps, from, both ? 8 : 4);
    return vld1_u32(steps);
  }
};

// How a tile widens a slice of Panel to operands.
template <typename Panel>
struct ToOperands : Panel {
  static constexpr int kUnits = Panel::kSteps;
};

}  // namespace
}  // namespace dunlin::kernels::cpu::neon_i8mm
