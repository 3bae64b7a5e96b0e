// SPDX-License-Identifier: Apache-2.0
// The kernels of low-rank adapters (low_rank_kernels.h), sixteen lanes at a time. A block of rows shares the loads of a
// matrix; how many rows, ranks or columns a block has changes no element's chain.
#pragma once

#include <cstddef>

#include "kernels/cpu/context/low_rank_kernels.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

// kRows rows by kRanks ranks, or by kVectors vectors of columns, are computed at once: as many sums as registers hold.
template <typename V, int kRows, int kRanks, int kVectors>
struct LowRank {
  using Floats = typename V::Floats;
  using Mask = typename V::Mask;

  // What is in flight between memory and a core. A Zen 5 core of a busy machine reads 24 GB/s with it, 13 without.
  static constexpr int64_t kPrefetchBytes = 8192;

  template <DType kType>
  DUNLIN_INLINE Floats LoadMatrix(const void* matrix, int64_t element, const Mask& mask) {
    if constexpr (kType == DType::kBF16) {
      return V::LoadBf16Masked(static_cast<const std::byte*>(matrix) + 2 * element, mask);
    } else if constexpr (kType == DType::kF16) {
      return V::LoadFp16Masked(static_cast<const std::byte*>(matrix) + 2 * element, mask);
    } else {
      return V::LoadMasked(static_cast<const float*>(matrix) + element, mask);
    }
  }

  template <DType kType>
  DUNLIN_INLINE const std::byte* ElementOf(const void* matrix, int64_t element) {
    return static_cast<const std::byte*>(matrix) + static_cast<int64_t>(SizeOf(kType)) * element;
  }

  // What will be read is on its way from memory while this is multiplied: the next panels, or the next block of ranks.
  template <DType kType>
  DUNLIN_INLINE void Prefetch(const void* matrix, int64_t element) {
    __builtin_prefetch(ElementOf<kType>(matrix, element));
  }

  // Rows [row, row + kNumRows) by ranks [rank, rank + kNumRanks).
  template <DType kType, int kNumRows, int kNumRanks>
  DUNLIN_INLINE void DotBlock(const LowRankDown& call, int32_t row, int32_t rank) {
    const int64_t stride = LowRankStride(call.in_features);
    const float* in[kNumRows];
    Floats sums[kNumRows][kNumRanks];
    for (int i = 0; i < kNumRows; ++i) {
      in[i] = call.in + call.rows[row + i] * call.in_stride;
      for (int r = 0; r < kNumRanks; ++r) sums[i][r] = V::Zero();
    }
    const void* down = ElementOf<kType>(call.down, rank * stride);
    const bool last = rank + kNumRanks >= call.num_ranks;
    const void* next = last ? call.next : ElementOf<kType>(down, kNumRanks * stride);
    ForEachVector<V>(call.in_features, [&](int64_t k, const Mask& mask) {
      Floats inputs[kNumRows];
      for (int i = 0; i < kNumRows; ++i) inputs[i] = V::LoadMasked(in[i] + k, mask);
      for (int r = 0; r < kNumRanks; ++r) {
        Prefetch<kType>(next, r * stride + k);
        const Floats weights = LoadMatrix<kType>(down, r * stride + k, mask);
        for (int i = 0; i < kNumRows; ++i) sums[i][r] = V::MulAdd(inputs[i], weights, sums[i][r]);
      }
    });
    for (int i = 0; i < kNumRows; ++i) {
      float* hidden = call.hidden + (row + i) * call.hidden_stride + rank;
      for (int r = 0; r < kNumRanks; ++r) hidden[r] = call.scale * V::ReduceAdd(sums[i][r]);
    }
  }

  // Rows from `row` on by all ranks, kNumRows and kNumRanks at once as long as there are as many. Returns the row
  // after.
  template <DType kType, int kNumRows, int kNumRanks>
  DUNLIN_INLINE int32_t DotRows(const LowRankDown& call, int32_t row) {
    const int32_t end = row + (call.num_rows - row) / kNumRows * kNumRows;
    int32_t rank = 0;
    for (; rank + kNumRanks <= call.num_ranks; rank += kNumRanks) {
      for (int32_t i = row; i < end; i += kNumRows) DotBlock<kType, kNumRows, kNumRanks>(call, i, rank);
    }
    for (; rank < call.num_ranks; ++rank) {
      for (int32_t i = row; i < end; i += kNumRows) DotBlock<kType, kNumRows, 1>(call, i, rank);
    }
    return end;
  }

  // A single row has more ranks at once, so that its sums do not wait for one another.
  template <DType kType>
  static void DownOf(const LowRankDown& call) {
    (void)DotRows<kType, 1, 2 * kRanks>(call, DotRows<kType, kRows, kRanks>(call, 0));
  }

  static void Down(const LowRankDown& call) {
    if (call.dtype == DType::kBF16) return DownOf<DType::kBF16>(call);
    return call.dtype == DType::kF16 ? DownOf<DType::kF16>(call) : DownOf<DType::kF32>(call);
  }

  // Rows [row, row + kNumRows) by kNumVectors vectors from `column` on, of which `mask` has the lanes of the last.
  template <DType kType, int kNumRows, int kNumVectors>
  DUNLIN_INLINE void AddBlock(const LowRankUp& call, int32_t row, int64_t column, const Mask& mask) {
    const Mask all = V::FirstLanes(kLanes);
    const int64_t panel = column / kLowRankPanel * call.rank * kLowRankPanel + column % kLowRankPanel;
    constexpr int64_t kAhead = kPrefetchBytes / static_cast<int64_t>(SizeOf(kType));
    const int64_t left = LowRankPanels(call.num_columns) * kLowRankPanel * call.rank - panel - kAhead;
    const void* ahead = left > 0 ? ElementOf<kType>(call.up, panel + kAhead) : ElementOf<kType>(call.next, -left);
    Floats sums[kNumRows][kNumVectors];
    for (int i = 0; i < kNumRows; ++i) {
      for (int v = 0; v < kNumVectors; ++v) sums[i][v] = V::Zero();
    }
    for (int32_t r = 0; r < call.rank; ++r) {
      Floats weights[kNumVectors];
      for (int v = 0; v < kNumVectors; ++v) {
        const int64_t element = r * kLowRankPanel + v * kLanes;
        Prefetch<kType>(ahead, element);
        weights[v] = LoadMatrix<kType>(call.up, panel + element, all);
      }
      for (int i = 0; i < kNumRows; ++i) {
        const Floats hidden = V::Broadcast(call.hidden[(row + i) * call.hidden_stride + r]);
        for (int v = 0; v < kNumVectors; ++v) sums[i][v] = V::MulAdd(hidden, weights[v], sums[i][v]);
      }
    }
    for (int i = 0; i < kNumRows; ++i) {
      float* out = call.out + call.rows[row + i] * call.out_stride + column;
      for (int v = 0; v < kNumVectors; ++v) {
        const Mask& lanes = v + 1 == kNumVectors ? mask : all;
        float* at = out + v * kLanes;
        V::StoreMasked(at, lanes, V::Add(V::LoadMasked(at, lanes), sums[i][v]));
      }
    }
  }

  template <DType kType, int kNumVectors>
  DUNLIN_INLINE void AddRows(const LowRankUp& call, int64_t column, const Mask& mask) {
    int32_t row = 0;
    for (; row + kRows <= call.num_rows; row += kRows) AddBlock<kType, kRows, kNumVectors>(call, row, column, mask);
    for (; row < call.num_rows; ++row) AddBlock<kType, 1, kNumVectors>(call, row, column, mask);
  }

  template <DType kType>
  static void UpOf(const LowRankUp& call) {
    constexpr int64_t kColumns = kVectors * kLanes;
    static_assert(kLowRankPanel % kColumns == 0);
    int64_t column = 0;
    for (; column + kColumns <= call.num_columns; column += kColumns) {
      AddRows<kType, kVectors>(call, column, V::FirstLanes(kLanes));
    }
    for (; column < call.num_columns; column += kLanes) {
      AddRows<kType, 1>(call, column, V::FirstLanes(call.num_columns - column));
    }
  }

  static void Up(const LowRankUp& call) {
    if (call.dtype == DType::kBF16) return UpOf<DType::kBF16>(call);
    return call.dtype == DType::kF16 ? UpOf<DType::kF16>(call) : UpOf<DType::kF32>(call);
  }
};

template <typename V, int kRows, int kRanks, int kVectors>
constexpr LowRankKernels LowRankKernelsOf() {
  using Kernels = LowRank<V, kRows, kRanks, kVectors>;
  return {Kernels::Down, Kernels::Up};
}

}  // namespace dunlin::kernels::cpu::simd
