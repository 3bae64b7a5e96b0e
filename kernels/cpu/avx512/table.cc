#include "kernels/cpu/kernel_table.h"

namespace dunlin::kernels::cpu {

const KernelTable& Avx512Kernels() { return PortableKernels(); }

}  // namespace dunlin::kernels::cpu
