// SPDX-License-Identifier: Apache-2.0
// What VectorGemm (block.h) is instantiated for: the precisions of the variants that multiply floats by FMA.
#pragma once

#include "kernels/cpu/gemm/vector/block.h"

namespace dunlin::kernels::cpu::simd {

// On AVX2 GCC 12 spills half as many sums with V::Accumulate.
template <typename V, Locality kTarget = kIntoL1>
struct FloatProducts {
  struct Multiply {
    DUNLIN_INLINE typename V::Floats Add(typename V::Floats sum, typename V::Factor a, typename V::Floats w) {
      if constexpr (TileShape<V>::kLarge) return V::MulAdd(V::OfFactor(a), w, sum);
      return V::Accumulate(sum, a, w);
    }
  };
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kSmallMRows = 8;
  static constexpr int kMaxSmallM = 0;
  static constexpr int kMaxBlockScaledM = 0;
  static constexpr Locality kLocality = kTarget;
  static constexpr bool kGrouped = false;
  static constexpr bool kIntegers = false;
};

// The slices of a large register tile: of panels that tiles decode, or codes that are widened to them.
template <typename PanelOfTile, typename WidenOfTile>
struct SlicesOfTile {
  using SlicePanel = PanelOfTile;
  using Widen = WidenOfTile;
};
// Of a small one: of floats. FP32 is copied: on a Zen 4 tiles of 512 rows read a slice that always lies in the same
// place in 0.85 of the time.
template <typename V, typename Panel>
struct SlicesOfFloats {
  struct SlicePanel : DensePanel<V> {};
  struct Widen : Panel {
    static constexpr int kUnits = Panel::kSteps;
  };
};
template <typename V, typename Panel, typename PanelOfTile, typename WidenOfTile = InPlace>
using SlicesOf =
    std::conditional_t<TileShape<V>::kLarge, SlicesOfTile<PanelOfTile, WidenOfTile>, SlicesOfFloats<V, Panel>>;

template <typename V, Locality kTarget = kIntoL1>
struct Fp32 : FloatProducts<V, kTarget>, SlicesOf<V, DensePanel<V>, DensePanel<V>> {
  using Panel = DensePanel<V>;
};

template <typename V, Locality kTarget = kIntoL1>
struct Fp16 : FloatProducts<V, kTarget>, SlicesOf<V, Fp16Panel<V>, Fp16Panel<V>> {
  using Panel = Fp16Panel<V>;
};

// On processors with a half-rate BF16 dot product twice as fast as that for many rows.
template <typename V>
struct Bf16 : FloatProducts<V>, SlicesOf<V, PairPanel<V>, PairPanel<V>> {
  using Panel = PairPanel<V>;
};

template <typename V>
struct E4M3Panels {
  using Pairs = CodesToPairs<V, E4M3ByShuffle<V>>;
  using Panel = std::conditional_t<TileShape<V>::kLarge, CodesToFloats<V, E4M3ByShuffle<V>>, E4M3ToFloats<V>>;
};
template <typename V>
struct Fp8 : FloatProducts<V>, SlicesOf<V, typename E4M3Panels<V>::Panel, PairPanel<V>, typename E4M3Panels<V>::Pairs> {
  using Panel = typename E4M3Panels<V>::Panel;
  static constexpr int kSmallMRows = 4;
  static constexpr int kMaxBlockScaledM = 4;
};

// Codes of a format in groups as floats.
template <typename V, WeightFormat kFormat>
constexpr auto MakeFloats() {
  if constexpr (Traits(kFormat).levels != CodeLevels::kIntegers) {
    return LevelsToFloats<V, Traits(kFormat).levels>();
  } else if constexpr (Traits(kFormat).code_bits == 4) {
    return Int4ToFloats<V, UnsignedBias(kFormat) != 0>();
  } else if constexpr (Traits(kFormat).code_bits == 6) {
    return Int6ToFloats<V>();
  } else {
    return Int8ToFloats<V>();
  }
}
template <typename V, WeightFormat kFormat>
using FloatsOf = decltype(MakeFloats<V, kFormat>());

// Formats in groups, with a scale each.
template <typename V, WeightFormat kFormat>
struct GroupedFloats : FloatProducts<V>,
                       SlicesOf<V, FloatsOf<V, kFormat>, PairPanel<V>, IntegersToPairs<V, FloatsOf<V, kFormat>>> {
  using Panel = FloatsOf<V, kFormat>;
  using Scales = ScalesOf<V, kFormat>;
  static constexpr int kSmallMRows = 4;
  static constexpr bool kGrouped = true;
};
// For MakeGemmKernels.
template <typename V>
struct GroupedFloatProducts {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    VectorGemm<V, GroupedFloats<V, kFormat>>::Run(block);
  }
};

}  // namespace dunlin::kernels::cpu::simd
