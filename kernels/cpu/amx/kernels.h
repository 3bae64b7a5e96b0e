// The AMX variant's kernels. Contracts: kernels/cpu/kernel_table.h. Activation rows are BF16, as the BF16 dot
// product's. tiles.h and gemm_block.h are for this folder's translation units only, which are compiled with AMX flags.
#pragma once

#include "kernels/cpu/kernel_table.h"

namespace dunlin::kernels::cpu::amx {

void GemmBf16(const GemmBlock& block);
void GemmFp8(const GemmBlock& block);

}  // namespace dunlin::kernels::cpu::amx
