// The table of a context and KV dtype.
#include "kernels/cpu/attention/tile_ops.h"
#include "kernels/cpu/context.h"

namespace dunlin::kernels::cpu {

const TileOps& SelectTileOps(const DeviceContext& context, DType kv_dtype) {
  const bool avx512 = context.variant != CpuVariant::kPortable && context.variant != CpuVariant::kAvx2;
  const bool dot = context.variant == CpuVariant::kAvx512Bf16;
  switch (kv_dtype) {
    case DType::kF32:
      return avx512 ? kAvx512F32Tiles : kPortableF32Tiles;
    case DType::kF16:
      return avx512 ? kAvx512F16Tiles : kPortableF16Tiles;
    case DType::kF8E4M3:
      return avx512 ? kAvx512F8Tiles : kPortableF8Tiles;
    default:
      return !avx512 ? kPortableBf16Tiles : dot ? kAvx512Bf16DotTiles : kAvx512Bf16Tiles;
  }
}

}  // namespace dunlin::kernels::cpu
