// SPDX-License-Identifier: Apache-2.0
// Products whose outputs become something two by two: a gate and what it multiplies (GemmParams::next of a gated
// weight), or the two halves of a head that a rotation mixes, whose keys and values go to pages (GemmParams::heads).
// Kernels that fill them fetch the two next to each other, so that one thread has both sums. Host code, but for the
// structs.
#pragma once

#include <cstdint>

#include "kernels/api/layer_ops.h"

namespace dunlin::kernels::cuda {

// What becomes of a product's sums. kRows: FP32 rows, or each through an activation.
enum class GemmOutputs : uint8_t { kRows, kGated, kHeads };

// Outputs n and n + half of each span of 2 * half are a pair: N / 2 of a gated weight, half of a head's dims of heads.
struct PairedOutputs {
  GemmOutputs use = GemmOutputs::kRows;  // kRows: none
  int32_t half = 0;                      // a multiple of 8
  int32_t half_shift = 0;                // log2(half); 31 of a gated weight, which is one span
  ActivationKind activation = ActivationKind::kSilu;
  RotateAndStoreKvParams heads = {};  // of the call's first row on
};

GemmOutputs OutputsOf(const GemmParams& params);

// Whether the kernels of paired outputs can fill params.next, or store params.heads, which OutputsOf says are to be
// filled. Gates: SiLU or tanh-GELU, 16-bit products into the same format without padding columns. Heads: of 16, 32, 64,
// 128 or 256 dims that are rotated whole or not at all, without norms or a query scale, into pages of 16 bits (E4M3's
// scale would need the whole head). Neither of integer codes nor with block scales, which lie in the order of outputs.
bool TakesPairs(const GemmParams& params);

// Of rows from `first` on. REQUIRES: TakesPairs, or kRows.
PairedOutputs PairedOutputsOf(const GemmParams& params, int64_t first);

}  // namespace dunlin::kernels::cuda
