// SPDX-License-Identifier: Apache-2.0
// The outputs of row operations: the rows of a GEMM input, rounded or quantised, and optionally the FP32 rows.
#pragma once

#include "kernels/cuda/device/layout.h"
#include "kernels/cuda/ops/fp8_scale.h"
#include "kernels/cuda/ops/row_sources.h"

namespace dunlin::kernels::cuda {

struct RowTarget {
  MatrixView out;    // data null: rows_out only
  float* rows_out;   // [*, out.columns] or null
  float amax_limit;  // the next four: as Activation
  InputScaling scaling;
  float* shared_scale;
  float* amax;
  uint32_t* current;  // kCurrent: bits of the largest magnitude over the call's rows, from MeasureRow
};

// *amax = max(*amax, magnitude), atomically; the result does not depend on the order.
DUNLIN_HD inline void RaiseMagnitude(uint32_t* amax, uint32_t magnitude_bits) {
#ifdef __CUDA_ARCH__
  atomicMax(amax, magnitude_bits);
#else
  uint32_t seen = __atomic_load_n(amax, __ATOMIC_RELAXED);
  while (seen < magnitude_bits &&
         !__atomic_compare_exchange_n(amax, &seen, magnitude_bits, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}
DUNLIN_HD inline void RaiseAmax(float* amax, uint32_t magnitude_bits) {
  RaiseMagnitude(reinterpret_cast<uint32_t*>(amax), magnitude_bits);
}

// Over the columns [begin, end).
template <typename Lanes, typename Row>
DUNLIN_HD uint32_t LargestMagnitude(const Lanes& lanes, const Row& row, int64_t begin, int64_t end, bool vector) {
  uint32_t largest = 0;
  ForValuesIn(lanes, row, begin, end, vector, [&](int64_t, int n, const Float4& four) {
    for (int k = 0; k < n; ++k) {
      const uint32_t magnitude = MagnitudeBits(four.values[k]);
      if (magnitude > largest) largest = magnitude;
    }
  });
  return lanes.Max(largest);
}

template <Precision kPrecision>
DUNLIN_HD void StoreValues(unsigned char* row, int64_t first, int count, const Float4& four, float factor) {
  if constexpr (kPrecision == Precision::kFp32) {
    float* at = reinterpret_cast<float*>(row) + first;
    if (count == 4) {
      *reinterpret_cast<Float4*>(at) = four;
    } else {
      *at = four.values[0];
    }
  } else if constexpr (kPrecision == Precision::kFp8) {
    struct alignas(4) Codes {
      uint8_t codes[4];
    } codes;
    for (int k = 0; k < count; ++k) codes.codes[k] = ToE4M3(four.values[k] * factor);
    if (count == 4) {
      *reinterpret_cast<Codes*>(row + first) = codes;
    } else {
      row[first] = codes.codes[0];
    }
  } else {
    struct alignas(8) Halves {
      uint16_t bits[4];
    } halves;
    for (int k = 0; k < count; ++k) {
      halves.bits[k] = kPrecision == Precision::kBf16 ? ToBf16(four.values[k]) : ToFp16(four.values[k]);
    }
    uint16_t* at = reinterpret_cast<uint16_t*>(row) + first;
    if (count == 4) {
      *reinterpret_cast<Halves*>(at) = halves;
    } else {
      *at = halves.bits[0];
    }
  }
}

// The same for a precision other than FP8 known only at run time.
DUNLIN_HD inline void StoreAs(Precision precision, unsigned char* row, int64_t first, int count, const Float4& four) {
  if (precision == Precision::kFp32) return StoreValues<Precision::kFp32>(row, first, count, four, 1.0F);
  if (precision == Precision::kFp16) return StoreValues<Precision::kFp16>(row, first, count, four, 1.0F);
  StoreValues<Precision::kBf16>(row, first, count, four, 1.0F);
}

// The scale of an FP8 row by target.scaling; also raises target.amax.
template <typename Lanes, typename Row>
DUNLIN_HD Fp8Scale ScaleFor(const Lanes& lanes, const Row& row, const RowTarget& target, int64_t index, bool vector) {
  if (target.scaling == InputScaling::kCurrent) {
    const Fp8Scale scale = CurrentScale(*target.current);
    if (index == 0 && lanes.index() == 0) {
      *target.shared_scale = scale.scale;
      if (target.amax != nullptr) RaiseAmax(target.amax, *target.current);
    }
    return scale;
  }
  const bool per_row = target.scaling == InputScaling::kPerRow;
  if (!per_row && target.amax == nullptr) return GivenScale(*target.shared_scale);
  const uint32_t largest = LargestMagnitude(lanes, row, 0, target.out.columns, vector);
  if (target.amax != nullptr && lanes.index() == 0) RaiseAmax(target.amax, largest);
  return per_row ? ScaleOfRow(LimitMagnitude(largest, target.amax_limit)) : GivenScale(*target.shared_scale);
}

// Writes columns [begin, end). out: the row in target.out.
template <Precision kPrecision, typename Lanes, typename Row>
DUNLIN_HD void WriteColumns(const Lanes& lanes, const Row& row, const RowTarget& target, int64_t index, int64_t begin,
                            int64_t end, float factor, bool vector) {
  unsigned char* out = target.out.row(index);
  float* plain = target.rows_out == nullptr ? nullptr : target.rows_out + index * target.out.columns;
  ForValuesIn(lanes, row, begin, end, vector, [&](int64_t first, int n, const Float4& four) {
    StoreValues<kPrecision>(out, first, n, four, factor);
    if (plain != nullptr) StoreValues<Precision::kFp32>(reinterpret_cast<unsigned char*>(plain), first, n, four, 1.0F);
  });
}

// FP8 with a scale per kScaleBlock columns: each part of the lanes handles whole blocks.
template <typename Lanes, typename Row>
DUNLIN_HD void WriteScaleBlocks(const Lanes& lanes, const Row& row, const RowTarget& target, int64_t index,
                                bool vector) {
  const auto part = lanes.Part();
  const int64_t columns = target.out.columns;
  DUNLIN_NO_UNROLL
  for (int64_t begin = int64_t{lanes.part_index()} * kScaleBlock; begin < columns;
       begin += int64_t{lanes.num_parts()} * kScaleBlock) {
    const int64_t end = begin + kScaleBlock < columns ? begin + kScaleBlock : columns;
    const uint32_t largest = LargestMagnitude(part, row, begin, end, vector);
    const Fp8Scale scale = ScaleOfRow(LimitMagnitude(largest, target.amax_limit));
    if (part.index() == 0) {
      target.out.scale(index, begin) = scale.scale;
      if (target.amax != nullptr) RaiseAmax(target.amax, largest);
    }
    WriteColumns<Precision::kFp8>(part, row, target, index, begin, end, scale.factor, vector);
  }
}

// Computes row `index` of the source into the target. rows_out may alias the source's input element for element.
// kBlocks: the target may have scale blocks.
template <Precision kPrecision, bool kBlocks = true, typename Lanes, typename Source>
DUNLIN_HD void WriteRow(const Lanes& lanes, const Source& source, const RowTarget& target, int64_t index) {
  const int64_t columns = target.out.columns;
  const auto row = source.Begin(lanes, index);
  float factor = 1.0F;
  bool written = false;
  if constexpr (kPrecision == Precision::kFp8) {
    if constexpr (kBlocks) written = target.out.scale_block != 0;
    if (kBlocks && written) {
      WriteScaleBlocks(lanes, row, target, index, source.vector);
    } else {
      const Fp8Scale scale = ScaleFor(lanes, row, target, index, source.vector);
      factor = scale.factor;
      if (lanes.index() == 0) target.out.scales()[index] = scale.scale;
    }
  } else if (target.amax != nullptr) {
    const uint32_t largest = LargestMagnitude(lanes, row, 0, columns, source.vector);
    if (lanes.index() == 0) RaiseAmax(target.amax, largest);
  }
  if (!written) WriteColumns<kPrecision>(lanes, row, target, index, 0, columns, factor, source.vector);
  for (int64_t i = columns + lanes.index(); i < PaddedDepth(columns); i += lanes.count()) {
    StoreValues<kPrecision>(target.out.row(index), i, 1, Float4{}, 1.0F);
  }
}

// The same in a kernel that may begin before the one that computes the source.
template <Precision kPrecision, typename Lanes, typename Source>
DUNLIN_HD void WriteRowEarly(const Lanes& lanes, const Source& source, const RowTarget& target, int64_t index) {
  source.PrefetchConstants(lanes);
  lanes.WaitForPreceding();
  WriteRow<kPrecision>(lanes, source, target, index);
}

// The same without a GEMM input: rows_out only.
template <typename Lanes, typename Source>
DUNLIN_HD void WritePlainRow(const Lanes& lanes, const Source& source, const RowTarget& target, int64_t index) {
  const int64_t columns = target.out.columns;
  const auto row = source.Begin(lanes, index);
  auto* out = reinterpret_cast<unsigned char*>(target.rows_out + index * columns);
  ForEachValue(lanes, row, columns, source.vector, [&](int64_t first, int n, const Float4& four) {
    StoreValues<Precision::kFp32>(out, first, n, four, 1.0F);
  });
}

template <typename Lanes, typename Source>
DUNLIN_HD void WritePlainRowEarly(const Lanes& lanes, const Source& source, const RowTarget& target, int64_t index) {
  source.PrefetchConstants(lanes);
  lanes.WaitForPreceding();
  WritePlainRow(lanes, source, target, index);
}

// kCurrent's first pass: raises *current to the row's largest magnitude.
template <typename Lanes, typename Source>
DUNLIN_HD void MeasureRow(const Lanes& lanes, const Source& source, const RowTarget& target, int64_t index) {
  const auto row = source.Begin(lanes, index);
  const uint32_t largest = LargestMagnitude(lanes, row, 0, target.out.columns, source.vector);
  if (lanes.index() == 0) RaiseMagnitude(target.current, largest);
}

}  // namespace dunlin::kernels::cuda
