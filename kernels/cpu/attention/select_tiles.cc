// The table of a code variant and KV dtype.
#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu {

const TileOps& SelectTileOps(CpuVariant variant, DType kv_dtype) {
  const bool avx512 = variant == CpuVariant::kAvx512;
  switch (kv_dtype) {
    case DType::kF32: return avx512 ? kAvx512F32Tiles : kPortableF32Tiles;
    case DType::kF16: return avx512 ? kAvx512F16Tiles : kPortableF16Tiles;
    default: return avx512 ? kAvx512Bf16Tiles : kPortableBf16Tiles;
  }
}

}  // namespace dunlin::kernels::cpu
