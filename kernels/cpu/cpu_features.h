// Which code variants this processor and its operating system can run. Any thread.
#pragma once

namespace dunlin::kernels::cpu {

// Whether the "avx512" variant may run: AVX-512 F, BW, VL, DQ, VBMI and BF16, FMA and F16C, with the 512-bit
// registers saved by the operating system.
bool HasAvx512Variant();

}  // namespace dunlin::kernels::cpu
