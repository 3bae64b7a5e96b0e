// SPDX-License-Identifier: Apache-2.0
// The table of a context and KV dtype.
#include "kernels/cpu/attention/algorithms.h"
#include "kernels/cpu/attention/neon_bf16/tiles.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

struct VariantTiles {
  const TileOps& f32;
  const TileOps& f16;
  const TileOps& bf16;
  const TileOps& f8;
};

const TileOps& Select(const VariantTiles& tiles, DType kv_dtype) {
  switch (kv_dtype) {
    case DType::kF32:
      return tiles.f32;
    case DType::kF16:
      return tiles.f16;
    case DType::kF8E4M3:
      return tiles.f8;
    default:
      return tiles.bf16;
  }
}

}  // namespace

const TileOps& SelectTileOps(const DeviceContext& context, [[maybe_unused]] bool exact_codes, DType kv_dtype,
                             [[maybe_unused]] int32_t head_dim, [[maybe_unused]] int32_t v_head_dim) {
  switch (context.variant) {
#ifdef DUNLIN_CPU_AVX2
    case CpuVariant::kAvx2:
      return Select({kAvx2F32Tiles, kAvx2F16Tiles, kAvx2Bf16Tiles, kAvx2F8Tiles}, kv_dtype);
#endif
#ifdef DUNLIN_CPU_NEON
    case CpuVariant::kNeon:
    case CpuVariant::kNeonDot:
    case CpuVariant::kNeonI8mm:
      return Select({kNeonF32Tiles, kNeonF16Tiles, kNeonBf16Tiles, kNeonF8Tiles}, kv_dtype);
#endif
#ifdef DUNLIN_CPU_NEON_BF16
    case CpuVariant::kNeonBf16:
      return Select({kNeonF32Tiles, kNeonF16Tiles, kNeonBf16DotTiles, kNeonF8Tiles}, kv_dtype);
#endif
#ifdef DUNLIN_CPU_AVX512_BF16
    case CpuVariant::kAvx512Bf16: {
      const bool floats = exact_codes || !TakesF8DotTiles(head_dim, v_head_dim);
      if (context.prefers_l2_prefetch) {
        return Select({kAvx512F32L2Tiles, kAvx512F16L2Tiles, kAvx512Bf16DotL2Tiles,
                       floats ? kAvx512F8Tiles : kAvx512F8DotL2Tiles},
                      kv_dtype);
      }
      return Select(
          {kAvx512F32Tiles, kAvx512F16Tiles, kAvx512Bf16DotTiles, floats ? kAvx512F8Tiles : kAvx512F8DotTiles},
          kv_dtype);
    }
#endif
#ifdef DUNLIN_CPU_AMX
    case CpuVariant::kAmxBf16:
      if (kv_dtype == DType::kBF16 && TakesAmxTiles(head_dim, v_head_dim)) {
        return kAmxBf16Tiles;
      }
      [[fallthrough]];
#endif
#ifdef DUNLIN_CPU_AVX512
    case CpuVariant::kAvx512:
      return Select({kAvx512F32Tiles, kAvx512F16Tiles, kAvx512Bf16Tiles, kAvx512F8Tiles}, kv_dtype);
#endif
    default:
      return Select({kPortableF32Tiles, kPortableF16Tiles, kPortableBf16Tiles, kPortableF8Tiles}, kv_dtype);
  }
}

}  // namespace dunlin::kernels::cpu
