// The CPU device's context: which code variant runs and on which pool.
#pragma once

#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace dunlin::kernels {

enum class CpuVariant : uint8_t { kPortable, kAvx512 };  // kAvx512: F, BW, VL, DQ, VBMI and BF16

struct DeviceContext {
  DeviceContext(CpuVariant cpu_variant, int num_threads) : variant(cpu_variant), pool(num_threads) {}
  const CpuVariant variant;
  cpu::ThreadPool pool;
};

}  // namespace dunlin::kernels
