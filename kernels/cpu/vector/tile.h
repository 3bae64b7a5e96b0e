// The register tile of the vector variants' GEMM: kRows rows by kVectors vectors of columns.
//
// A step is four bytes of each activation row (one float, or a pair of BF16) times 64 bytes of dense weights a vector.
// Each sum is one chain of multiply-adds over ascending steps that starts at +0, in every tile shape; a sum parked in
// memory between slices of K continues the same chain.
//
// Panel: how a panel's bytes become dense. A unit is kSteps steps of a whole panel, kVectorBytes a vector. Of the
// vector whose bytes start at `at`, Panel::Decode(at, weights) makes the kSteps dense vectors, Panel::DecodeStep(at, s)
// the one of step s; the second is for panels that a tile reads again and again.
//
// Multiply: Add(sum, a, weights) multiplies a row's values. With kFromMemory few rows call AddFrom(sum, at, weights),
// which reads the four bytes at `at` for all lanes itself, and decode vector by vector: each takes them anew.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/packed_layout.h"
#include "kernels/cpu/vector/lanes.h"

namespace dunlin::kernels::cpu::vector {

inline constexpr int kPanelVectors = static_cast<int>(kPanelColumns / kLanes);
inline constexpr int64_t kVectorStepBytes = kLanes * 4;  // of a dense vector

using AliasedFloat = float __attribute__((may_alias));

template <typename V>
struct MultiplyFloat {
  using Floats = typename V::Floats;
  static constexpr bool kFromMemory = false;
  DUNLIN_LANE Floats Add(Floats sum, Floats a, Floats w) { return V::MulAdd(a, w, sum); }
};

// A panel whose bytes are the steps' vectors themselves: fp32, or bf16 for the dot product.
template <typename V>
struct DensePanel {
  static constexpr int kSteps = 1;
  static constexpr int64_t kVectorBytes = kVectorStepBytes;
  DUNLIN_LANE void Decode(const std::byte* at, typename V::Floats (&weights)[1]) { weights[0] = V::Load(at); }
  DUNLIN_LANE typename V::Floats DecodeStep(const std::byte* at, int) { return V::Load(at); }
};

template <typename V, int kRows, int kVectors>
struct Sums {
  typename V::Floats at[kRows][kVectors];
};

// The rows of a tile, at their first step.
struct TileRows {
  const std::byte* first;
  size_t stride;  // bytes

  DUNLIN_LANE const std::byte* At(const TileRows& rows, int row, int64_t step) {
    return rows.first + static_cast<size_t>(row) * rows.stride + step * 4;
  }
  template <typename V>
  DUNLIN_LANE typename V::Floats Value(const TileRows& rows, int row, int64_t step) {
    return V::All(*reinterpret_cast<const AliasedFloat*>(At(rows, row, step)));
  }
};

// Asks memory for a line, into L2 or L1.
template <bool kIntoL2>
DUNLIN_LANE void AskFor(const std::byte* line) {
  __builtin_prefetch(line, 0, kIntoL2 ? 2 : 3);
}

// One unit of vectors [first, first + kCount), decoded whole before the first multiply.
template <typename V, typename Multiply, typename Panel, int kRows, int kVectors, int kCount>
DUNLIN_LANE void MultiplyUnit(const TileRows& rows, int64_t step, const std::byte* at, int first,
                              Sums<V, kRows, kVectors>& sums) {
  typename V::Floats weights[kCount][Panel::kSteps];
#pragma GCC unroll 3
  for (int v = 0; v < kCount; ++v) Panel::Decode(at + v * Panel::kVectorBytes, weights[v]);
#pragma GCC unroll 4
  for (int s = 0; s < Panel::kSteps; ++s) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if constexpr (Multiply::kFromMemory) {
        static_assert(kCount == 1);
        sums.at[r][first] = Multiply::AddFrom(sums.at[r][first], TileRows::At(rows, r, step + s), weights[0][s]);
      } else {
        const typename V::Floats a = TileRows::Value<V>(rows, r, step + s);
#pragma GCC unroll 3
        for (int v = 0; v < kCount; ++v) {
          typename V::Floats& sum = sums.at[r][first + v];
          sum = Multiply::Add(sum, a, weights[v][s]);
        }
      }
    }
  }
}

// A panel that is read once, from memory: decoded in registers.
template <typename V, typename Multiply, typename Panel, int kRows>
DUNLIN_LANE void AccumulatePanel(const TileRows& rows, const std::byte* panel, int64_t units,
                                 Sums<V, kRows, kPanelVectors>& sums) {
  constexpr int64_t kUnitBytes = kPanelVectors * Panel::kVectorBytes;
  // What is under way between memory and core: 42 GB/s times 170 ns. Less made a core wait, more did no harm.
  constexpr int64_t kPrefetchBytes = 8192;
  constexpr int kTogether = V::kDecodesWhole && !Multiply::kFromMemory ? kPanelVectors : 1;
  // Into L2 where rows multiply 8 vectors a line or more. Fewer read at memory's pace: lines that are one vector faster
  // by the processor's own requests alone (Zen 4), others, which it follows less far ahead, into L1.
  constexpr int64_t kLineVectors = Panel::kSteps * kVectorStepBytes / Panel::kVectorBytes;
  constexpr bool kIntoL2 = V::kAsksL2 && kRows * kLineVectors >= 8;
  constexpr int64_t kAskedBytes = V::kAsksL2 && !kIntoL2 && kLineVectors == 1 ? 0 : kUnitBytes;
  for (int64_t unit = 0; unit < units; ++unit, panel += kUnitBytes) {
#pragma GCC unroll 3
    for (int64_t line = 0; line < kAskedBytes; line += 64) AskFor<kIntoL2>(panel + kPrefetchBytes + line);
#pragma GCC unroll 3
    for (int v = 0; v < kPanelVectors; v += kTogether) {
      MultiplyUnit<V, Multiply, Panel, kRows, kPanelVectors, kTogether>(rows, unit * Panel::kSteps,
                                                                        panel + v * Panel::kVectorBytes, v, sums);
    }
  }
}

// A slice of K of a panel, at the tile's first vector. A tile asks memory for kAhead lines from `ahead` on in four
// steps, all the way into the first-level cache but of few tiles with V::kAsksL2: some processors drop requests for the
// second under load.
struct PanelSlice {
  const std::byte* at;
  int64_t units;
  const std::byte* ahead;
  const std::byte* codes;  // what a tile that widens the slice makes it from, and where
  std::byte* widened;
};

// A slice as it lies in memory.
struct InPlace {
  static constexpr int kUnits = 0;
};

// `units` units of codes, widened to kUnits units of SlicePanel each.
template <typename V, typename SlicePanel, typename Widen>
DUNLIN_LANE void WidenUnits(const std::byte* codes, int units, std::byte* to) {
#pragma GCC unroll 2
  for (int unit = 0; unit < units; ++unit) {
#pragma GCC unroll 3
    for (int v = 0; v < kPanelVectors; ++v) {
      typename V::Floats widened[Widen::kUnits];
      Widen::Decode(codes + (unit * kPanelVectors + v) * Widen::kVectorBytes, widened);
#pragma GCC unroll 2
      for (int u = 0; u < Widen::kUnits; ++u) {
        V::Store(to + ((unit * Widen::kUnits + u) * kPanelVectors + v) * SlicePanel::kVectorBytes, widened[u]);
      }
    }
  }
}

// One unit of a slice. Step by step: of all decoded vectors, those of one step alone fit the registers beside a whole
// tile's sums.
template <typename V, typename Multiply, typename Panel, int kRows, int kVectors>
DUNLIN_LANE void MultiplySteps(const TileRows& rows, int64_t unit, const std::byte* at,
                               Sums<V, kRows, kVectors>& sums) {
#pragma GCC unroll 4
  for (int s = 0; s < Panel::kSteps; ++s) {
    typename V::Floats weights[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) weights[v] = Panel::DecodeStep(at + v * Panel::kVectorBytes, s);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename V::Floats a = TileRows::Value<V>(rows, r, unit * Panel::kSteps + s);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sums.at[r][v] = Multiply::Add(sums.at[r][v], a, weights[v]);
    }
  }
}

// Widen: how this tile makes the slice from codes, four steps before it multiplies them; InPlace when there are none or
// a tile before it has done so.
template <typename V, typename Multiply, typename Panel, typename Widen, int kAhead, int kRows, int kVectors>
DUNLIN_LANE void AccumulateSlice(const TileRows& rows, const PanelSlice& slice, Sums<V, kRows, kVectors>& sums) {
  constexpr int64_t kUnitBytes = kPanelVectors * Panel::kVectorBytes;
  constexpr bool kIntoL2 = V::kAsksL2 && kAhead == 6;  // of few tiles, which reach memory's pace
  // Units of four steps: fewer instructions beside the multiplies, of which a shared core is short.
  constexpr int kUnroll = 4 / Panel::kSteps;
  const auto widen = [&](int64_t unit, int units) __attribute__((always_inline)) {
    if constexpr (Widen::kUnits > 0) {
      constexpr int64_t kCodeBytes = kPanelVectors * Widen::kVectorBytes;
      WidenUnits<V, Panel, Widen>(slice.codes + unit / Widen::kUnits * kCodeBytes, units / Widen::kUnits,
                                  slice.widened + unit * kUnitBytes);
    }
  };
  const auto multiply = [&](int64_t unit) __attribute__((always_inline)) {
    MultiplySteps<V, Multiply, Panel, kRows, kVectors>(rows, unit, slice.at + unit * kUnitBytes, sums);
  };
  const int64_t whole = slice.units / kUnroll * kUnroll;
  const std::byte* ahead = slice.ahead;
  if (whole > 0) widen(0, kUnroll);
  for (int64_t unit = 0; unit < whole; unit += kUnroll) {
    if (unit + kUnroll < whole) widen(unit + kUnroll, kUnroll);
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      const int end = (u + 1) * kAhead / kUnroll;
#pragma GCC unroll 6
      for (int line = u * kAhead / kUnroll; line < end; ++line) AskFor<kIntoL2>(ahead + line * 64);
      multiply(unit + u);
    }
    ahead += kAhead * 64;
  }
  for (int64_t unit = whole; unit < slice.units; ++unit) {
    if (Widen::kUnits > 0 && (unit - whole) % (Widen::kUnits > 0 ? Widen::kUnits : 1) == 0) widen(unit, Widen::kUnits);
    multiply(unit);
  }
}

template <typename V, int kRows, int kVectors>
DUNLIN_LANE void Clear(Sums<V, kRows, kVectors>& sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 6
    for (int v = 0; v < kVectors; ++v) sums.at[r][v] = V::Zero();
  }
}

// totals += sums * (activation scale * weight scale), for scale `index` of each row. weight_scale: of that scale, at
// the first column.
template <typename V, int kRows, int kVectors>
DUNLIN_LANE void AddScaled(const GemmBlock& block, int row, int64_t index, const float* weight_scale,
                           const Sums<V, kRows, kVectors>& sums, Sums<V, kRows, kVectors>& totals) {
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    const typename V::Floats by_column = V::Load(weight_scale + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float by_row = block.activation_scale[(row + r) * block.scales_per_row + index];
      const typename V::Floats scale = V::Mul(V::All(by_row), by_column);
      totals.at[r][v] = V::MulAdd(sums.at[r][v], scale, totals.at[r][v]);
    }
  }
}

// Parked sums: [kRows][kVectors][16] floats.
template <typename V, int kRows, int kVectors>
DUNLIN_LANE void Load(const float* parked, Sums<V, kRows, kVectors>& sums) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sums.at[r][v] = V::Load(parked + (r * kVectors + v) * kLanes);
  }
}
template <typename V, int kRows, int kVectors>
DUNLIN_LANE void Park(const Sums<V, kRows, kVectors>& sums, float* parked) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) V::Store(parked + (r * kVectors + v) * kLanes, sums.at[r][v]);
  }
}

// Asks for the lines that Store will write and the columns' scales and biases, long before: a line that it had to wait
// for would hold the next tile up too.
template <int kRows, int kVectors>
DUNLIN_LANE void AskForOutput(const GemmBlock& block, int row, int64_t column) {
  const float* out = block.out + row * block.out_stride + column;
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(out + r * block.out_stride + v * kLanes, 1);
  }
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    if (block.weight_scale != nullptr && block.scales_per_row == 1)
      __builtin_prefetch(block.weight_scale + column + v * kLanes);
    if (block.bias != nullptr) __builtin_prefetch(block.bias + column + v * kLanes);
  }
}

// out = sums (scaled) + bias + residual, for the columns that exist.
template <typename V, int kRows, int kVectors>
DUNLIN_LANE void Store(const GemmBlock& block, int row, int64_t first_column, const Sums<V, kRows, kVectors>& sums) {
#pragma GCC unroll 6
  for (int v = 0; v < kVectors; ++v) {
    const int64_t column = first_column + v * kLanes;
    if (column >= block.columns) return;
    const typename V::Mask mask = V::MaskOf(block.columns - column);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const int64_t offset = (row + r) * block.out_stride + column;
      typename V::Floats value = sums.at[r][v];
      if (block.weight_scale != nullptr && block.scales_per_row == 1) {
        value = V::Mul(value, V::All(block.activation_scale[row + r]));
        value = V::Mul(value, V::LoadPart(block.weight_scale + column, mask));
      }
      if (block.bias != nullptr) value = V::Add(value, V::LoadPart(block.bias + column, mask));
      if (block.residual != nullptr) value = V::Add(value, V::LoadPart(block.residual + offset, mask));
      V::StorePart(block.out + offset, mask, value);
    }
  }
}

}  // namespace dunlin::kernels::cpu::vector
