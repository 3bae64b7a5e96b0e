// What a device can do at most, measured by loops that do nothing else: the scale that a bench holds its cases against.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::kernels {

// Products of two values of a kind, added in FP32: what arithmetic is bound by.
enum class Peak : uint8_t { kFp32, kBf16, kFp16, kFp8 };
inline constexpr int kNumPeaks = 4;

struct PeakRate {
  double flops = 0.0;     // per second; a multiply-add is two. 0: the device multiplies them as another kind
  const char* unit = "";  // CPU: "sse2", "avx2_fma", "avx512_fma", "avx512_bf16_dot", "amx_bf16"
                          // CUDA: "fma", "mma_sync", "library_gemm"
};

// Rates of all of the device's compute threads together.
struct Roofs {
  PeakRate
      fastest[kNumPeaks];   // by Peak; of the device's fastest unit for them, whatever its kernels use. FP32 is there
  PeakRate own[kNumPeaks];  // of the unit that the device's own kernels use: the opened CPU variant's; CUDA: without
                            // the library. Only where `fastest` has a rate
  double dram_read_bytes = 0.0;  // per second, from memory far larger than the caches
  int32_t num_threads = 0;       // that were used; CUDA: multiprocessors
};

// Each rate is the best of `runs` short runs (6 take about a second in all), because whatever else the machine does can
// only lower it. May allocate and wait, unlike a launcher.
struct RoofParams {
  void* memory;         // device memory, 64-byte aligned, only read
  size_t memory_bytes;  // > 0; a multiple of the last-level cache, or the read rate is the cache's
  int32_t runs;         // >= 1
  Roofs* out;
};

// One of those rates as it is at this moment, beside whatever else the machine does.
struct RoofProbe {
  const char* unit;     // of Roofs, one that this processor has; null: DRAM read
  double seconds;       // > 0; takes about so long
  const void* memory;   // for DRAM read, as in RoofParams
  size_t memory_bytes;  // likewise
  size_t* position;     // likewise; where in the memory to read on, in and out: what was read last may be in a cache
  double* rate;         // out: operations or bytes a second of all threads
};

}  // namespace dunlin::kernels
