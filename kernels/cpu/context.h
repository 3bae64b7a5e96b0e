// SPDX-License-Identifier: Apache-2.0
// The CPU device's context: which code variant runs, on which pool, and each worker's scratch.
// Thread rule: read-only after it is made; scratch(w) belongs to pool worker w while a task runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/shared/memory_count.h"

namespace dunlin::kernels {

// kAvx2: AVX2, FMA and F16C; kAvx512: also AVX-512 F, BW, VL and DQ; kAvx512Bf16: also VBMI, VNNI and the BF16 dot
// product; kAmxBf16: also the tile registers of AMX.
enum class CpuVariant : uint8_t { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmxBf16 };

struct DeviceContext {
  DeviceContext(CpuVariant cpu_variant, const cpu::KernelTable& kernel_table, int num_threads)
      : variant(cpu_variant),
        prefers_l2_prefetch(cpu::PrefersL2Prefetch()),
        kernels(kernel_table),
        pool(num_threads),
        scratch_memory(cpu::kWorkerBytes * static_cast<size_t>(pool.num_threads())) {}

  std::byte* scratch(int worker) const {
    return scratch_memory.data() + cpu::kWorkerBytes * static_cast<size_t>(worker);
  }

  const CpuVariant variant;
  const bool prefers_l2_prefetch;  // cpu_features.h; read by attention of kAvx512Bf16, whose GEMM table follows it too
  const cpu::KernelTable& kernels;
  cpu::ThreadPool pool;
  const cpu::MemoryBlock scratch_memory;  // launchers do not allocate
  MemoryCount memory;
};

}  // namespace dunlin::kernels
