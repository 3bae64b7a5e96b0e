// SPDX-License-Identifier: Apache-2.0
// What VectorGemm (block.h) is instantiated for: the precisions of the variants that multiply floats by FMA.
#pragma once

#include "kernels/cpu/gemm/vector/block.h"
#include "kernels/cpu/simd/e4m3.h"

namespace dunlin::kernels::cpu::simd {

template <typename V, Locality kTarget = kIntoL1>
struct FloatProducts {
  struct Multiply {
    DUNLIN_INLINE typename V::Floats Add(typename V::Floats sum, typename V::Floats a, typename V::Floats w) {
      return V::MulAdd(a, w, sum);
    }
  };
  static constexpr int64_t kStepDepth = 1;
  static constexpr int kNarrowRows = 8;
  static constexpr int kRepeatedRows = 0;
  static constexpr int kScaledRows = 0;
  static constexpr Locality kLocality = kTarget;
  static constexpr bool kGrouped = false;
  static constexpr bool kIntegers = false;
};

template <typename V, Locality kTarget = kIntoL1>
struct Fp32 : FloatProducts<V, kTarget> {
  using Panel = DensePanel<V>;
  using SlicePanel = Panel;
};

template <typename V, Locality kTarget = kIntoL1>
struct Fp16 : FloatProducts<V, kTarget> {
  using Panel = Fp16Panel<V>;
  using SlicePanel = Panel;
};

// Of weights that are widened in registers. On AVX2 GCC 12 spills half as many sums with V::Accumulate: a BF16 product
// of 8 rows takes 0.9 of the time.
template <typename V>
struct WidenedProducts : FloatProducts<V> {
  struct Multiply {
    DUNLIN_INLINE typename V::Floats Add(typename V::Floats sum, typename V::Floats a, typename V::Floats w) {
      return TileShape<V>::kLarge ? V::MulAdd(a, w, sum) : V::Accumulate(sum, a, w);
    }
  };
};

// On processors with a half-rate BF16 dot product twice as fast as that for many rows.
template <typename V>
struct Bf16 : WidenedProducts<V> {
  using Panel = PairPanel<V>;
  using SlicePanel = Panel;
};

template <typename V>
struct Fp8 : WidenedProducts<V> {
  using Panel = CodesToFloats<V, E4M3ByShuffle<V>>;
  using SlicePanel = PairPanel<V>;
  using Widen = CodesToPairs<V, E4M3ByShuffle<V>>;
  static constexpr int kNarrowRows = 4;
  static constexpr int kScaledRows = 4;
};

// Integers in groups, with a scale each.
template <typename V, typename ToFloats, typename ScalesOfGroup>
struct GroupedFloats : WidenedProducts<V> {
  using Panel = ToFloats;
  using SlicePanel = PairPanel<V>;
  using Widen = IntegersToPairs<V, ToFloats>;
  using Scales = ScalesOfGroup;
  static constexpr int kNarrowRows = 4;
  static constexpr bool kGrouped = true;
};
template <typename V>
using Int8 = GroupedFloats<V, Int8ToFloats<V>, ScaleWords<V, false>>;
template <typename V>
using Int4 = GroupedFloats<V, Int4ToFloats<V, true>, ScaleWords<V, true>>;
template <typename V>
using Q8 = GroupedFloats<V, Int8ToFloats<V>, HalfScales<V>>;
template <typename V>
using Q4 = GroupedFloats<V, Int4ToFloats<V, true>, HalfScales<V>>;
template <typename V>
using Q4Zero = GroupedFloats<V, Int4ToFloats<V, true>, HalfZeroScales<V>>;
template <typename V>
using Q4Super = GroupedFloats<V, Int4ToFloats<V, false>, SuperScales<V, WeightFormat::kQ4Super>>;
template <typename V>
using Q6Super = GroupedFloats<V, Int6ToFloats<V>, SuperScales<V, WeightFormat::kQ6Super>>;
template <typename V>
using Q6Min = GroupedFloats<V, Int6ToFloats<V>, SuperScales<V, WeightFormat::kQ6Min>>;
template <typename V>
using Q8Wide = GroupedFloats<V, Int8ToFloats<V>, WideScales<V>>;

}  // namespace dunlin::kernels::cpu::simd
