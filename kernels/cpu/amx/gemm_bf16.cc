// BF16 weights: a panel is a stack of weight tiles as it lies in memory.
#include "kernels/cpu/amx/gemm_block.h"
#include "kernels/cpu/amx/kernels.h"

namespace dunlin::kernels::cpu::amx {
namespace {

struct Bf16Panels {
  DUNLIN_LANE const std::byte* Dense(const std::byte* panel, int64_t first_k, int64_t /*depth*/, std::byte*) {
    return panel + static_cast<size_t>(first_k) / 2 * kPairRowBytes;
  }
};

}  // namespace

void GemmBf16(const GemmBlock& block) {
  GemmBlockOf<Bf16Panels>(block);
}

}  // namespace dunlin::kernels::cpu::amx
