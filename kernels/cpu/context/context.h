// SPDX-License-Identifier: Apache-2.0
// The CPU device's context: which code variant runs, on which pool, and each worker's scratch.
// Thread rule: read-only after it is made; scratch(w) belongs to pool worker w while a task runs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/context/cpu_features.h"
#include "kernels/cpu/context/kernel_table.h"
#include "kernels/cpu/context/memory.h"
#include "kernels/cpu/context/thread_pool.h"
#include "kernels/shared/memory_count.h"

namespace dunlin::kernels {
struct DeviceContext;
}

namespace dunlin::kernels::cpu {

// kAvx2: AVX2, FMA and F16C; kAvx512: also AVX-512 F, BW, VL and DQ; kAvx512Bf16: also VBMI, VNNI and the BF16 dot
// product; kAmxBf16: also the tile registers of AMX. kNeon: Armv8.0; kNeonDot: also the dot product of bytes;
// kNeonI8mm: also the matrix product of bytes; kNeonBf16: also products of BF16.
enum class CpuVariant : uint8_t {
  kPortable,
  kAvx2,
  kAvx512,
  kAvx512Bf16,
  kAmxBf16,
  kNeon,
  kNeonDot,
  kNeonI8mm,
  kNeonBf16
};

struct DeviceContext {
  DeviceContext(CpuVariant cpu_variant, const KernelTable& kernel_table, int num_threads)
      : variant(cpu_variant),
        prefers_l2_prefetch(PrefersL2Prefetch()),
        kernels(kernel_table),
        pool(num_threads),
        scratch_memory(kWorkerBytes * static_cast<size_t>(pool.num_threads())) {}

  std::byte* scratch(int worker) const { return scratch_memory.data() + kWorkerBytes * static_cast<size_t>(worker); }

  const CpuVariant variant;
  const bool prefers_l2_prefetch;  // cpu_features.h; read by attention of kAvx512Bf16, whose GEMM table follows it too
  const KernelTable& kernels;
  ThreadPool pool;
  const MemoryBlock scratch_memory;  // launchers do not allocate
  MemoryCount memory;
};

// The context behind a Device of the CPU.
inline const DeviceContext& ContextOf(const kernels::DeviceContext* context) {
  return *reinterpret_cast<const DeviceContext*>(context);
}

}  // namespace dunlin::kernels::cpu
