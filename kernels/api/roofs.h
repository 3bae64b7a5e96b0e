// SPDX-License-Identifier: Apache-2.0
// The peak rates of a device, measured by loops that do nothing else; benches report results relative to them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::kernels {

// The peak rates of arithmetic: products of two values of this type, accumulated in FP32.
enum class Peak : uint8_t { kFp32, kBf16, kFp16, kFp8 };
inline constexpr int kNumPeaks = 4;

struct PeakRate {
  double flops = 0.0;     // per second; a multiply-add counts as two. 0: the device has no unit for this type
  const char* unit = "";  // CPU: "sse2", "avx2_fma", "avx512_fma", "avx512_bf16_dot", "amx_bf16"
                          // CUDA: "fma", "mma_sync", "library_gemm"
};

// Rates of all of the device's compute threads together.
struct Roofs {
  PeakRate fastest[kNumPeaks];   // by Peak: of the device's fastest unit, whatever its kernels use; FP32 is always set
  PeakRate own[kNumPeaks];       // by Peak: of the unit that our kernels use (CPU: the opened variant's; CUDA: without
                                 // cuBLASLt); 0 where `fastest` is
  double dram_read_bytes = 0.0;  // per second, from memory far larger than the caches
  int32_t num_threads = 0;       // in use; CUDA: multiprocessors
};

// Each rate is the best of `runs` short runs (6 take about a second in all), because other load on the machine can only
// lower it. May allocate and wait, unlike a launcher.
struct RoofParams {
  void* memory;         // device memory, 64-byte aligned; its contents may change
  size_t memory_bytes;  // > 0; several times the last-level cache, else the cache's rate is measured
  int32_t runs;         // >= 1
  Roofs* out;
};

// One of these rates at this moment, under whatever load the machine has.
struct RoofProbe {
  const char* unit;     // a PeakRate::unit that this processor has; null: DRAM read
  double seconds;       // > 0; about how long the probe takes
  const void* memory;   // DRAM read: as in RoofParams
  size_t memory_bytes;  // DRAM read: as in RoofParams
  size_t* position;     // DRAM read, in and out: the offset to continue at, as the bytes read last may be cached
  double* rate;         // out: operations or bytes per second, all threads
};

}  // namespace dunlin::kernels
