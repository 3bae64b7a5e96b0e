// SPDX-License-Identifier: Apache-2.0
// The two tensor core instructions that the kernels use, and their semantics in plain C++. Source: PTX ISA, ldmatrix
// and mma.sync.aligned.m16n8k16.
#pragma once

#include <cstring>

#include "kernels/api/dtype.h"
#include "kernels/cuda/block/block_program.h"
#include "kernels/cuda/block/tile_layout.h"

namespace dunlin::kernels::cuda {

// Formats of a 2-byte operand.
struct Bf16Format {
  static constexpr DType kDType = DType::kBF16;
  DUNLIN_HD static uint16_t FromFloat(float value) { return ToBf16(value); }
  DUNLIN_HD static float ToFloat(uint16_t bits) { return FromBf16(bits); }
  DUNLIN_HD static bool IsFinite(uint16_t bits) { return (bits & 0x7F80U) != 0x7F80U; }
};
struct Fp16Format {
  static constexpr DType kDType = DType::kF16;
  DUNLIN_HD static uint16_t FromFloat(float value) { return ToFp16(value); }
  DUNLIN_HD static float ToFloat(uint16_t bits) { return FromFp16(bits); }
  DUNLIN_HD static bool IsFinite(uint16_t bits) { return (bits & 0x7C00U) != 0x7C00U; }
};

template <typename Format>
DUNLIN_HD uint32_t PackPair(float low, float high) {
  return Format::FromFloat(low) | static_cast<uint32_t>(Format::FromFloat(high)) << 16;
}

// Loads four matrices of 8 x 8 elements: lane l passes the address of row l % 8 of matrix l / 8. Register m of lane l
// receives elements (l / 4, 2 (l % 4)) and the next one of matrix m, or of its transpose if kTransposed.
template <bool kTransposed, typename Place>
DUNLIN_HD void LoadMatrices(Frag<uint32_t, 4>* out, const Place& place) {
#ifdef __CUDA_ARCH__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(place(static_cast<int>(threadIdx.x) % 32)));
  uint32_t* r = out->values[0];
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
  }
#else
  const auto element = [&place](int matrix, int row, int column) {
    uint16_t bits;
    std::memcpy(&bits, place(matrix * 8 + row) + column * 2, sizeof(bits));
    return uint32_t{bits};
  };
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int row = lane / 4;
      const int column = lane % 4 * 2;
      out->at(lane, matrix) = kTransposed ? element(matrix, column, row) | element(matrix, column + 1, row) << 16
                                          : element(matrix, row, column) | element(matrix, row, column + 1) << 16;
    }
  }
#endif
}

// c[4 n ..] += a b: a is 16 x 16; b is 16 x 8, in registers first and first + 1 of `b`.
template <typename Format, int kCount>
DUNLIN_HD void MultiplyAdd(Frag<float, kCount>* c, int n, const Frag<uint32_t, 4>& a, const Frag<uint32_t, 4>& b,
                           int first) {
#ifdef __CUDA_ARCH__
  float* d = c->values[0] + 4 * n;
  const uint32_t* x = a.values[0];
  const uint32_t* y = b.values[0] + first;
  if constexpr (Format::kDType == DType::kBF16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  }
#else
  // Register r of a: row lane / 4, plus 8 if r is odd; depth 2 (lane % 4), plus 8 from r = 2 on. Register r of b: the
  // same depths, column lane / 4.
  float left[16][16];
  float right[16][8];
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    for (int which = 0; which < 2; ++which) {
      const auto half = [which](uint32_t pair) { return Format::ToFloat(static_cast<uint16_t>(pair >> (16 * which))); };
      const int depth = lane % 4 * 2 + which;
      for (int r = 0; r < 4; ++r) left[lane / 4 + r % 2 * 8][depth + r / 2 * 8] = half(a.at(lane, r));
      for (int r = 0; r < 2; ++r) right[depth + r * 8][lane / 4] = half(b.at(lane, first + r));
    }
  }
  for (int lane = 0; lane < kWarpLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      float sum = c->at(lane, 4 * n + i);
      for (int depth = 0; depth < 16; ++depth) {
        sum += left[ProductSlot::Row(lane, i)][depth] * right[depth][ProductSlot::Column(lane, i)];
      }
      c->at(lane, 4 * n + i) = sum;
    }
  }
#endif
}

}  // namespace dunlin::kernels::cuda
