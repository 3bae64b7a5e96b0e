// What a device can do at most, measured by loops that do nothing else: the scale that a bench holds its cases against.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/status.h"

namespace dunlin::kernels {

// Rates of all of the device's compute threads together. A multiply-add counts as two operations.
struct Roofs {
  double fp32_flops = 0.0;             // per second; the processor's fastest FP32 multiply-adds, whatever the variant
  double bf16_flops = 0.0;             // per second; the fastest of those and of its units for BF16 products
  double dram_read_bytes = 0.0;        // per second, from memory far larger than the caches
  double variant_fp32_flops = 0.0;     // per second; of the unit that the opened variant multiplies FP32 and FP16 with
  double variant_bf16_flops = 0.0;     // per second; of the unit that it multiplies BF16 and FP8 with
  const char* fp32_unit = "";          // "sse2", "avx2_fma", "avx512_fma"
  const char* bf16_unit = "";          // also "avx512_bf16_dot", "amx_bf16"
  const char* variant_fp32_unit = "";  // where the variant's own differ
  const char* variant_bf16_unit = "";
  int32_t num_threads = 0;  // that were used
};

// Each rate is the best of `runs` short runs (6 take about a second in all), because whatever else the machine does can
// only lower it.
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

struct Device;

// Both: kUnsupported for a device that does not measure itself: today all but the CPU.
KernelStatus MeasureRoofs(Device* device, const RoofParams& params);
KernelStatus ProbeRoof(Device* device, const RoofProbe& probe);

}  // namespace dunlin::kernels
