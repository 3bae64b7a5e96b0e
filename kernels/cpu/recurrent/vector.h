// SPDX-License-Identifier: Apache-2.0
// The kernels of recurrent layers (recurrent_kernels.h) over a lanes type, sixteen channels or columns at a time.
#pragma once

#include "kernels/cpu/context/recurrent_kernels.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

static_assert(kStateLanes == kLanes, "a block of a state is one vector wide");

// kVectors: blocks of a state that are updated at once, so that eight independent sums hide an addition's latency.
template <typename V, int kVectors>
struct Recurrent {
  using Floats = typename V::Floats;
  using Mask = typename V::Mask;
  static constexpr int kParts = 4;  // of a sum

  static void ConvolveRow(const ConvRow& row) {
    ForEachVector<V>(row.num_channels, [&](int64_t c, const Mask& mask) {
      Floats sum = V::Mul(V::LoadMasked(row.weight + c, mask), V::LoadMasked(row.taps[0] + c, mask));
      for (int32_t tap = 1; tap < row.num_taps; ++tap) {
        const float* weight = row.weight + tap * row.weight_stride + c;
        sum = V::MulAdd(V::LoadMasked(weight, mask), V::LoadMasked(row.taps[tap] + c, mask), sum);
      }
      if (row.bias != nullptr) sum = V::Add(sum, V::LoadMasked(row.bias + c, mask));
      V::StoreMasked(row.out + c, mask, sum);
    });
  }

  static void MultiplyRows(const float* a, const float* b, int64_t n, float* out) {
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      V::StoreMasked(out + i, mask, V::Mul(V::LoadMasked(a + i, mask), V::LoadMasked(b + i, mask)));
    });
  }

  static float SumSquares(const float* in, int64_t n) {
    Floats sum = V::Zero();
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Floats value = V::LoadMasked(in + i, mask);
      sum = V::MulAdd(value, value, sum);
    });
    return V::ReduceAdd(sum);
  }

  // Of DeltaColumns or SsmColumns.
  template <typename Columns>
  static void UpdateColumns(const Columns& columns) {
    const int64_t block = StateRows(columns) * kLanes;
    int64_t first = 0;
    for (; first + kVectors * kLanes <= columns.num_columns; first += kVectors * kLanes) {
      UpdateBlocks<kVectors>(columns, first, columns.state + first / kLanes * block);
    }
    for (; first < columns.num_columns; first += kLanes) {
      UpdateBlocks<1>(columns, first, columns.state + first / kLanes * block);
    }
  }

 private:
  DUNLIN_INLINE int64_t StateRows(const DeltaColumns& columns) { return columns.key_dim; }
  DUNLIN_INLINE int64_t StateRows(const SsmColumns& columns) { return columns.state_dim; }

  template <int kCount>
  struct Sums {
    Floats parts[kParts][kCount];

    DUNLIN_INLINE Floats Total(const Sums& sums, int v) {
      return V::Add(V::Add(sums.parts[0][v], sums.parts[1][v]), V::Add(sums.parts[2][v], sums.parts[3][v]));
    }
  };

  // Of a row: what its update is written by, and what the state is read by.
  struct Factors {
    const float* write;  // [num_rows]
    const float* read;   // [num_rows]
    int64_t num_rows;    // of the state
  };

  // Columns [first, first + kCount * kLanes), of which the last ones may not exist.
  template <int kCount>
  static void UpdateBlocks(const DeltaColumns& columns, int64_t first, float* state) {
    if (columns.decayed_key != nullptr) {
      UpdateDelta<kCount, true>(columns, first, state);
    } else {
      UpdateDelta<kCount, false>(columns, first, state);
    }
  }

  // kOwnDecays: of each row of the state.
  template <int kCount, bool kOwnDecays>
  static void UpdateDelta(const DeltaColumns& columns, int64_t first, float* state) {
    Mask masks[kCount];
    for (int v = 0; v < kCount; ++v) masks[v] = V::FirstLanes(columns.num_columns - first - v * kLanes);
    for (int64_t row = 0; row < columns.num_rows; ++row) {
      const float* decays = columns.decay + row * (kOwnDecays ? columns.key_dim : 1);
      const Floats decay = V::Broadcast(decays[0]);
      const float* read_by =
          kOwnDecays ? columns.decayed_key + row * columns.key_dim : columns.key + row * columns.stride;
      const Sums<kCount> read = Read<kCount>(columns, read_by, state);
      const float* value = columns.value + row * columns.stride + first;
      Floats update[kCount];
      for (int v = 0; v < kCount; ++v) {
        const Floats key_scale = V::Broadcast(columns.key_scale[row]);
        Floats stored = V::Mul(Sums<kCount>::Total(read, v), key_scale);
        if constexpr (!kOwnDecays) stored = V::Mul(stored, decay);
        const Floats change = V::Sub(V::LoadMasked(value + v * kLanes, masks[v]), stored);
        update[v] = V::Mul(V::Mul(change, V::Broadcast(columns.beta[row])), key_scale);
      }
      const Factors factors = {columns.key + row * columns.stride, columns.query + row * columns.stride,
                               columns.key_dim};
      const Sums<kCount> attended = Write<kCount>(
          factors, [&](int64_t i) { return kOwnDecays ? V::Broadcast(decays[i]) : decay; }, update, state);
      float* out = columns.out + row * columns.out_stride + first;
      for (int v = 0; v < kCount; ++v) {
        const Floats total = V::Mul(Sums<kCount>::Total(attended, v), V::Broadcast(columns.query_scale[row]));
        V::StoreMasked(out + v * kLanes, masks[v], total);
      }
    }
  }

  template <int kCount>
  static void UpdateBlocks(const SsmColumns& columns, int64_t first, float* state) {
    Mask masks[kCount];
    for (int v = 0; v < kCount; ++v) masks[v] = V::FirstLanes(columns.num_columns - first - v * kLanes);
    const Floats skip = V::Broadcast(columns.skip);
    for (int64_t row = 0; row < columns.num_rows; ++row) {
      const float* in = columns.x + row * columns.stride + first;
      Floats x[kCount];
      Floats update[kCount];
      for (int v = 0; v < kCount; ++v) {
        x[v] = V::LoadMasked(in + v * kLanes, masks[v]);
        update[v] = V::Mul(x[v], V::Broadcast(columns.step[row]));
      }
      const Factors factors = {columns.b + row * columns.stride, columns.c + row * columns.stride, columns.state_dim};
      const Floats decay = V::Broadcast(columns.decay[row]);
      const Sums<kCount> sums = Write<kCount>(
          factors, [&](int64_t) { return decay; }, update, state);
      float* out = columns.out + row * columns.out_stride + first;
      for (int v = 0; v < kCount; ++v) {
        V::StoreMasked(out + v * kLanes, masks[v], V::MulAdd(skip, x[v], Sums<kCount>::Total(sums, v)));
      }
    }
  }

  template <int kCount>
  DUNLIN_INLINE Sums<kCount> Zeros() {
    Sums<kCount> sums;
    for (auto& part : sums.parts) {
      for (Floats& lanes : part) lanes = V::Zero();
    }
    return sums;
  }

  // sum_i key_i s_i
  template <int kCount>
  DUNLIN_INLINE Sums<kCount> Read(const DeltaColumns& columns, const float* key, const float* state) {
    const int64_t block = int64_t{columns.key_dim} * kLanes;
    Sums<kCount> sums = Zeros<kCount>();
    const auto add = [&](int64_t i, int part) __attribute__((always_inline)) {
      const Floats factor = V::Broadcast(key[i]);
      for (int v = 0; v < kCount; ++v) {
        sums.parts[part][v] = V::MulAdd(factor, V::Load(state + v * block + i * kLanes), sums.parts[part][v]);
      }
    };
    int64_t i = 0;
    for (; i + kParts <= columns.key_dim; i += kParts) {
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) add(i + part, part);
    }
#pragma GCC unroll 3
    for (int part = 0; part < kParts - 1; ++part) {
      if (i + part < columns.key_dim) add(i + part, part);
    }
    return sums;
  }

  // s_i = decay(i) s_i + write_i update; sum_i read_i s_i
  template <int kCount, typename Decay>
  DUNLIN_INLINE Sums<kCount> Write(const Factors& factors, const Decay& decay, const Floats (&update)[kCount],
                                   float* state) {
    const int64_t block = factors.num_rows * kLanes;
    Sums<kCount> sums = Zeros<kCount>();
    const auto add = [&](int64_t i, int part) __attribute__((always_inline)) {
      const Floats write = V::Broadcast(factors.write[i]);
      const Floats read = V::Broadcast(factors.read[i]);
      const Floats factor = decay(i);
      for (int v = 0; v < kCount; ++v) {
        float* at = state + v * block + i * kLanes;
        const Floats changed = V::MulAdd(write, update[v], V::Mul(factor, V::Load(at)));
        V::Store(at, changed);
        sums.parts[part][v] = V::MulAdd(read, changed, sums.parts[part][v]);
      }
    };
    int64_t i = 0;
    for (; i + kParts <= factors.num_rows; i += kParts) {
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) add(i + part, part);
    }
#pragma GCC unroll 3
    for (int part = 0; part < kParts - 1; ++part) {
      if (i + part < factors.num_rows) add(i + part, part);
    }
    return sums;
  }
};

template <typename V, int kVectors>
constexpr RecurrentKernels RecurrentKernelsOf() {
  using Kernels = Recurrent<V, kVectors>;
  return {.conv_row = Kernels::ConvolveRow,
          .multiply_rows = Kernels::MultiplyRows,
          .delta_columns = Kernels::template UpdateColumns<DeltaColumns>,
          .ssm_columns = Kernels::template UpdateColumns<SsmColumns>,
          .sum_squares = Kernels::SumSquares};
}

}  // namespace dunlin::kernels::cpu::simd
