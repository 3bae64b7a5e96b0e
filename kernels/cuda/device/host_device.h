// SPDX-License-Identifier: Apache-2.0
// Code for both sides: index arithmetic and row algorithms are written once and compiled for the device into kernels
// and for the host into tests. A row algorithm sees its threads as a `Lanes` value; the host has a single lane.
// DUNLIN_HD: a function that device code and the module's host code call. DUNLIN_DEVICE: one that only kernels call;
// g++ compiles it for tests.
#pragma once

#include <cstdint>

#include "kernels/api/float_formats.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define DUNLIN_HD __host__ __device__
#define DUNLIN_DEVICE __device__ __forceinline__
#else
#define DUNLIN_HD
#define DUNLIN_DEVICE inline
#endif
#ifdef __CUDA_ARCH__
#define DUNLIN_UNROLL _Pragma("unroll")
#define DUNLIN_NO_UNROLL _Pragma("unroll 1")
#else
#define DUNLIN_UNROLL
#define DUNLIN_NO_UNROLL
#endif

namespace dunlin::kernels::cuda {

// Four floats, loaded and stored as one 16-byte access.
struct alignas(16) Float4 {
  float values[4];
};

// The host's single lane: sums and maxima are the lane's own values. Lanes are divided into parts, which may diverge.
struct SingleLane {
  int32_t index() const { return 0; }
  int32_t count() const { return 1; }
  float Sum(float value) const { return value; }
  uint32_t Max(uint32_t value) const { return value; }
  uint64_t Max(uint64_t value) const { return value; }
  template <int kCount>
  void Sums(double (*)[kCount]) const {}
  float Largest(float value) const { return value; }  // NaN is ignored where another lane has a number
  void Sync() const {}
  void BeginPass() const {}  // over a row: tests count them
  // Additions to counters that lanes share, in no fixed order: by one; by a value, returning what was there; and to a
  // sum of two words.
  void Count(uint32_t* at) const { ++*at; }
  uint32_t Take(uint32_t* at, uint32_t value) const {
    const uint32_t before = *at;
    *at += value;
    return before;
  }
  void AddWide(uint32_t* low, uint32_t* high, uint32_t value) const {
    *low += value;
    if (*low < value) ++*high;
  }
  int32_t num_parts() const { return 1; }
  int32_t part_index() const { return 0; }
  SingleLane Part() const { return {}; }
};

// Round to nearest even, as float_formats.h. NaN stays NaN; sign and payload differ between device and host.
DUNLIN_HD inline uint16_t ToBf16(float value) {
#ifdef __CUDA_ARCH__
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  return FloatToBf16(value);
#endif
}
DUNLIN_HD inline uint16_t ToFp16(float value) {
#ifdef __CUDA_ARCH__
  return __half_as_ushort(__float2half_rn(value));
#else
  return FloatToFp16(value);
#endif
}
DUNLIN_HD inline uint8_t ToE4M3(float value) {
#ifdef __CUDA_ARCH__
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
#else
  return FloatToE4M3(value);
#endif
}

DUNLIN_HD inline float FromBf16(uint16_t bits) {
  return Bf16ToFloat(bits);
}
DUNLIN_HD inline float FromFp16(uint16_t bits) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(bits));
#else
  return Fp16ToFloat(bits);
#endif
}
DUNLIN_HD inline float FromE4M3(uint8_t code) {
#ifdef __CUDA_ARCH__
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
#else
  return E4M3ToFloat(code);
#endif
}

DUNLIN_HD constexpr uint32_t FloatBits(float value) {
  return std::bit_cast<uint32_t>(value);
}
DUNLIN_HD constexpr float BitsToFloat(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
DUNLIN_HD constexpr uint32_t MagnitudeBits(float value) {
  return FloatBits(value) & 0x7FFFFFFFU;
}
DUNLIN_HD constexpr int64_t RoundUpTo(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace dunlin::kernels::cuda
