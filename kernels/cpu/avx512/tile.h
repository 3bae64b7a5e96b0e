// The register tile of every AVX-512 GEMM: kRows rows by kPanels panels of 48 columns, three vectors of sums each.
//
// A step is four bytes of each activation row (one float, or a pair of BF16) times 192 bytes of dense panel (three
// vectors). Each sum is one chain of multiply-adds over ascending steps that starts at +0, in every tile shape; a sum
// parked in memory between slices of K continues the same chain. AVX-512 translation units only.
#pragma once

#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/kernel_table.h"

namespace dunlin::kernels::cpu::avx512 {

inline constexpr int kVectors = 3;               // per panel
inline constexpr int64_t kStepBytes = 192;       // of a dense panel
inline constexpr int64_t kPrefetchBytes = 2048;  // ahead in a panel that is read once
inline constexpr int kTileRows = 8;              // 8 x 3 sums, 3 weights and a broadcast fit 32 registers

using AliasedFloat = float __attribute__((may_alias));

// What a step does with 32 bits of activation and 32 bits of weight per lane.
struct MultiplyFloat {
  DUNLIN_LANE __m512 Add(__m512 sum, __m512 a, __m512 w) { return _mm512_fmadd_ps(a, w, sum); }
};

// A panel whose bytes are the step's vectors themselves: fp32, bf16, or a decoded slice.
struct DensePanel {
  static constexpr int kSteps = 1;  // per Decode
  static constexpr int64_t kBytes = kStepBytes;
  DUNLIN_LANE void Decode(const std::byte* at, __m512 (&weights)[1][kVectors]) {
    for (int v = 0; v < kVectors; ++v) weights[0][v] = _mm512_loadu_ps(at + v * 64);
  }
};

// BF16 pairs (first K in the low half) to floats, exactly.
DUNLIN_LANE void WidenPairs(__m512i pairs, __m512& first, __m512& second) {
  first = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  second = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(~0xFFFF)));
}

template <int kRows, int kPanels>
struct Sums {
  __m512 at[kRows][kPanels * kVectors];
};

template <typename Multiply, typename Panel, bool kPrefetch, int kRows, int kPanels>
DUNLIN_LANE void Accumulate(const std::byte* activation, size_t stride, const std::byte* panels, size_t panel_bytes,
                            int64_t units, Sums<kRows, kPanels>& sums) {
  for (int64_t unit = 0; unit < units; ++unit) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) {
      const std::byte* at = panels + static_cast<size_t>(p) * panel_bytes + unit * Panel::kBytes;
      if constexpr (kPrefetch) {
#pragma GCC unroll 3
        for (int64_t line = 0; line < Panel::kBytes; line += 64) _mm_prefetch(at + kPrefetchBytes + line, _MM_HINT_T0);
      }
      __m512 weights[Panel::kSteps][kVectors];
      Panel::Decode(at, weights);
#pragma GCC unroll 4
      for (int s = 0; s < Panel::kSteps; ++s) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const std::byte* value = activation + static_cast<size_t>(r) * stride + (unit * Panel::kSteps + s) * 4;
          const __m512 a = _mm512_set1_ps(*reinterpret_cast<const AliasedFloat*>(value));
#pragma GCC unroll 3
          for (int v = 0; v < kVectors; ++v) {
            __m512& sum = sums.at[r][p * kVectors + v];
            sum = Multiply::Add(sum, a, weights[s][v]);
          }
        }
      }
    }
  }
}

template <int kRows, int kPanels>
DUNLIN_LANE void Clear(Sums<kRows, kPanels>& sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 6
    for (int v = 0; v < kPanels * kVectors; ++v) sums.at[r][v] = _mm512_setzero_ps();
  }
}

// totals += sums * (activation scale * weight scale), for scale `index` of each row. weight_scale: of that scale, [48].
template <int kRows>
DUNLIN_LANE void AddScaled(const GemmBlock& block, int row, int64_t index, const float* weight_scale,
                           const Sums<kRows, 1>& sums, Sums<kRows, 1>& totals) {
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const __m512 by_column = _mm512_loadu_ps(weight_scale + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float by_row = block.activation_scale[(row + r) * block.scales_per_row + index];
      const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(by_row), by_column);
      totals.at[r][v] = _mm512_fmadd_ps(sums.at[r][v], scale, totals.at[r][v]);
    }
  }
}

// Parked sums: [rows][48] floats.
template <int kRows>
DUNLIN_LANE void Load(const float* parked, Sums<kRows, 1>& sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sums.at[r][v] = _mm512_load_ps(parked + (r * kVectors + v) * kLanes);
  }
}
template <int kRows>
DUNLIN_LANE void Park(const Sums<kRows, 1>& sums, float* parked) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(parked + (r * kVectors + v) * kLanes, sums.at[r][v]);
  }
}

// out = sums (scaled) + bias + residual, for the columns that exist.
template <int kRows, int kPanels>
DUNLIN_LANE void Store(const GemmBlock& block, int row, int64_t first_column, const Sums<kRows, kPanels>& sums) {
#pragma GCC unroll 6
  for (int v = 0; v < kPanels * kVectors; ++v) {
    const int64_t column = first_column + v * kLanes;
    if (column >= block.columns) return;
    const __mmask16 mask = LaneMask(block.columns - column);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const int64_t offset = (row + r) * block.out_stride + column;
      __m512 value = sums.at[r][v];
      if (block.weight_scale != nullptr && block.scales_per_row == 1) {
        value = _mm512_mul_ps(value, _mm512_set1_ps(block.activation_scale[row + r]));
        value = _mm512_mul_ps(value, _mm512_maskz_loadu_ps(mask, block.weight_scale + column));
      }
      if (block.bias != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, block.bias + column));
      if (block.residual != nullptr) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, block.residual + offset));
      _mm512_mask_storeu_ps(block.out + offset, mask, value);
    }
  }
}

}  // namespace dunlin::kernels::cpu::avx512
