// SPDX-License-Identifier: Apache-2.0
// The leaf kernels of a CPU variant: one const table per variant. A variant's code lives in its own translation units
// with its own compiler flags, and shares no inline function with others.
#pragma once

#include "kernels/cpu/context/gemm_kernels.h"
#include "kernels/cpu/context/low_rank_kernels.h"
#include "kernels/cpu/context/recurrent_kernels.h"
#include "kernels/cpu/context/row_kernels.h"

namespace dunlin::kernels::cpu {

struct KernelTable : GemmKernels, RowKernels, Int8GemmKernels, RecurrentKernels, LowRankKernels {};

const KernelTable& PortableKernels();
// REQUIRES: HasAvx2Variant() before any entry is called.
const KernelTable& Avx2Kernels();
// REQUIRES: HasAvx512Variant() before any entry is called. bf16 and fp8 are widened to floats and multiplied by FMA.
const KernelTable& Avx512Kernels();
// REQUIRES: HasAvx512Bf16Variant(). bf16 and fp8 are multiplied in pairs by the BF16 dot product. Which of the two is
// faster depends on the processor (HasFastBf16Dot), and so does the cache that it prefetches into (PrefersL2Prefetch).
const KernelTable& Avx512Bf16Kernels();
// REQUIRES: HasAmxVariant(). bf16 and fp8 are multiplied by the tile registers.
const KernelTable& AmxKernels();

// Of ARM: FMA on floats, as Avx2Kernels.
const KernelTable& NeonKernels();
// REQUIRES: HasNeonDotVariant(). The same, with inputs of 8 bits multiplied by the dot product of bytes.
const KernelTable& NeonDotKernels();
// REQUIRES: HasNeonI8mmVariant(). The same; three rows and more of inputs of 8 bits by the matrix product of bytes.
const KernelTable& NeonI8mmKernels();
// REQUIRES: HasNeonBf16Variant(). bf16 and fp8 are multiplied in pairs by the dot product and matrix product of BF16.
const KernelTable& NeonBf16Kernels();

}  // namespace dunlin::kernels::cpu
