// SPDX-License-Identifier: Apache-2.0
// Steps of packing a slice of K of one panel: source rows to staged rows, staged rows into the panel's order. Staged
// rows lie kStagedStride elements apart in a worker's scratch, so that 48 of them meet in the cache without sharing its
// sets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/cpu/gemm/packed_layout.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kSliceDepth = 256;                 // K elements staged at once; a multiple of every DepthUnit
inline constexpr int64_t kStagedStride = kSliceDepth + 32;  // elements between staged rows, of 1, 2 or 4 bytes

// Where a slice is read from: column c of the panel, element k of the slice at data[c * row_stride + k *
// column_stride].
struct SliceSource {
  const std::byte* data;
  DType dtype;
  int64_t row_stride;  // elements
  int64_t column_stride;
};

// floats[c][k] = the source's values, `columns` by `count`; FP8 codes without their scale.
void StageFloats(const SliceSource& source, int64_t columns, int64_t count, float* floats);

// staged[c][k] = the source's elements unchanged.
void StageElements(const SliceSource& source, int64_t columns, int64_t count, std::byte* staged);

// Of kInt8 and kInt4: rounds the floats of each column in groups. count: a multiple of kWeightGroup. codes[c][k]: a
// byte for each element; words[group][48]: the scale words, at the first column.
void RoundGroups(WeightFormat format, const float* floats, int64_t columns, int64_t count, int8_t* codes,
                 uint16_t* words);

// Puts staged elements of `columns` columns from first_column on, K [first, first + count), into the panel of a plain
// format. REQUIRES: first and count are multiples of DepthUnit(format), count is at most kSliceDepth.
void ScatterStaged(WeightFormat format, const std::byte* staged, int64_t first_column, int64_t columns, int64_t first,
                   int64_t count, std::byte* panel);

// The same for integer codes of a grouped format, a byte each: those of column c begin at codes[c * stride].
void ScatterCodes(WeightFormat format, const int8_t* codes, int64_t stride, int64_t first_column, int64_t columns,
                  int64_t first, int64_t count, std::byte* panel);

// As ScatterStaged, for a source of the format's dtype, f32, f16 or bf16, whose columns of the panel lie side by side
// (row_stride 1): the whole K, straight into the panel. An odd K of bf16 is padded with zeros.
void CopyTransposed(WeightFormat format, const SliceSource& source, int64_t first_column, int64_t columns,
                    int64_t depth, std::byte* panel);

}  // namespace dunlin::kernels::cpu
