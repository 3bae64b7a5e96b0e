// SPDX-License-Identifier: Apache-2.0
// Pages of the CUDA device in which codes and BF16 elements are the same values.
#pragma once

#include "kernels/cuda/device/layout.h"
#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::testing {

// Values that E4M3 holds, as codes with scales of 1 or in BF16.
inline void StoreExact(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head,
                       int32_t slot, const float* key, const float* value) {
  auto* bytes = reinterpret_cast<unsigned char*>(pool);
  const int32_t dim = layout.shape.head_dim;
  for (const auto& [offset, row] : {std::pair{cuda::KeyBlockOffset(layout, page, layer, kv_head), key},
                                    {cuda::ValueBlockOffset(layout, page, layer, kv_head), value}}) {
    for (int32_t d = 0; d < dim; ++d) {
      const int64_t at = cuda::KvElement(dim, slot, d);
      const uint8_t code = FloatToE4M3(Bf16ToFloat(FloatToBf16(row[d])));
      if (layout.dtype == DType::kF8E4M3) {
        bytes[offset + at] = code;
      } else {
        reinterpret_cast<uint16_t*>(bytes + offset)[at] = FloatToBf16(E4M3ToFloat(code));
      }
    }
    if (layout.dtype != DType::kF8E4M3) continue;
    *reinterpret_cast<float*>(bytes + offset + cuda::KvScaleOffset(dim, layout.tokens_per_page, slot)) = 1.0F;
  }
}

inline constexpr PageFormat kExactPages = {StoreExact, nullptr};

}  // namespace dunlin::kernels::testing
