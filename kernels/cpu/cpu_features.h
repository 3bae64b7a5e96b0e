// Which code variants this processor and its operating system can run. Any thread.
#pragma once

namespace dunlin::kernels::cpu {

// Whether the "avx2" variant may run: AVX2, FMA and F16C (Haswell and later, Zen and later), with the 256-bit registers
// saved by the operating system.
bool HasAvx2Variant();

// Whether the "avx512" variant may run: what "avx2" needs and AVX-512 F, BW, VL and DQ (Skylake-X and later servers,
// Zen 4 and later), with the 512-bit registers saved by the operating system.
bool HasAvx512Variant();

// Whether the "avx512_bf16" variant may run: what "avx512" needs, AVX-512 VBMI and BF16.
bool HasAvx512Bf16Variant();

// Whether that variant's BF16 dot product does twice the multiply-adds of FMA in the same time, as on Zen 4 and later.
// Intel's cores issue it at a quarter of the rate of FMA instructions: half the arithmetic (Sapphire Rapids, measured:
// 70 against 146 GFLOP/s a core).
bool HasFastBf16Dot();

// Whether requests of memory for L2 (prefetcht1) are taken when those for L1 (prefetcht0) have to wait: AMD's Zen 4,
// one core of which reads pages at 13 GB/s by the one and 19 by the other. Zen 5 drops them when its queues are full.
// It chooses the kernels that were measured on a Zen 4, which widen weights beside products of few rows too.
bool AsksL2Freely();

// Whether the "amx_bf16" variant may run: what "avx512_bf16" needs, AMX-TILE and AMX-BF16. The first call asks Linux to
// let this process use the tile registers; Linux refuses when a thread's alternate signal stack is too small for them.
bool HasAmxVariant();

}  // namespace dunlin::kernels::cpu
