// SPDX-License-Identifier: Apache-2.0
// Which code variants this processor and its operating system can run. Any thread. A function about a variant is
// defined for the architecture that has it.
#pragma once

namespace dunlin::kernels::cpu {

// Whether the "avx2" variant may run: AVX2, FMA and F16C (Haswell and later, Zen and later), with the 256-bit registers
// saved by the operating system.
bool HasAvx2Variant();

// Whether the "avx512" variant may run: what "avx2" needs and AVX-512 F, BW, VL and DQ (Skylake-X and later servers,
// Zen 4 and later), with the 512-bit registers saved by the operating system.
bool HasAvx512Variant();

// Whether the "avx512_bf16" variant may run: what "avx512" needs, AVX-512 VBMI, VNNI and BF16.
bool HasAvx512Bf16Variant();

// Whether that variant's BF16 dot product has twice the throughput of FMA, as on Zen 4 and later. Intel's cores issue
// it at a quarter of the rate of FMA instructions, which is half the arithmetic (measured on Sapphire Rapids: 70
// against 146 GFLOP/s a core).
bool HasFastBf16Dot();

// Whether more prefetches into L2 (prefetcht1) than into L1 (prefetcht0) can be in flight: AMD's Zen 4, one core of
// which reads KV pages at 13 GB/s with prefetches into L1 and 19 into L2. Zen 5 drops the latter when its queues are
// full.
bool PrefersL2Prefetch();

// Whether the "amx_bf16" variant may run: what "avx512_bf16" needs, AMX-TILE and AMX-BF16. The first call requests the
// tile registers for this process from Linux, which refuses when a thread's alternate signal stack is too small for
// them.
bool HasAmxVariant();

// Whether the "neon_dot" variant may run: the dot product of bytes of Armv8.2 (Neoverse N1, Cortex-A76 and later,
// Apple's M1). The "neon" variant runs on every aarch64.
bool HasNeonDotVariant();

// Whether the "neon_i8mm" variant may run: what "neon_dot" needs and the matrix product of bytes (Armv8.6: Neoverse V1,
// N2 and later, Apple's M2).
bool HasNeonI8mmVariant();

// Whether the "neon_bf16" variant may run: what "neon_i8mm" needs and the products of BF16, which came with it.
bool HasNeonBf16Variant();

}  // namespace dunlin::kernels::cpu
