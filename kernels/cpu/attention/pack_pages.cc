// Page packing by element size; the orders are those of kernels/cpu/kv_block.h.
#include "kernels/cpu/attention/pack_pages.h"

#include <cstring>

namespace dunlin::kernels::cpu {
namespace {

// K [d][T] and V [T][d], FP32 and FP16.
template <typename Element, int kTokens>
void PackPlain(const Element* keys, const Element* values, int32_t num_tokens, int32_t head_dim, Element* key_block,
               Element* value_block) {
  for (int32_t d = 0; d < head_dim; ++d) {
    Element* out = key_block + static_cast<ptrdiff_t>(d) * kTokens;
    for (int32_t t = 0; t < num_tokens; ++t) out[t] = keys[static_cast<ptrdiff_t>(t) * head_dim + d];
    for (int32_t t = num_tokens; t < kTokens; ++t) out[t] = 0;
  }
  const auto filled = static_cast<size_t>(num_tokens) * static_cast<size_t>(head_dim);
  const auto whole = static_cast<size_t>(kTokens) * static_cast<size_t>(head_dim);
  std::memcpy(value_block, values, filled * sizeof(Element));
  std::memset(value_block + filled, 0, (whole - filled) * sizeof(Element));
}

// K [D/2][16][2] and V [8][D][2], BF16.
void PackPairs(const uint16_t* keys, const uint16_t* values, int32_t num_tokens, int32_t head_dim, uint16_t* key_block,
               uint16_t* value_block, size_t block_bytes) {
  if (num_tokens < 16 || head_dim % 2 != 0) std::memset(key_block, 0, 2 * block_bytes);
  const int32_t padded_dim = (head_dim + 1) / 2 * 2;
  for (int32_t t = 0; t < num_tokens; ++t) {
    const uint16_t* key = keys + static_cast<ptrdiff_t>(t) * head_dim;
    for (int32_t d = 0; d + 1 < head_dim; d += 2) std::memcpy(key_block + d * 16 + t * 2, key + d, 4);
    if (head_dim % 2 != 0) key_block[(head_dim - 1) * 16 + t * 2] = key[head_dim - 1];
    const uint16_t* value = values + static_cast<ptrdiff_t>(t) * head_dim;
    uint16_t* out = value_block + static_cast<ptrdiff_t>(t / 2) * padded_dim * 2 + t % 2;
    for (int32_t d = 0; d < head_dim; ++d) out[2 * d] = value[d];
  }
}

}  // namespace

void PackPage(const KvLayout& layout, const void* keys, const void* values, int32_t num_tokens, std::byte* key_block) {
  const int32_t head_dim = layout.shape.head_dim;
  std::byte* value_block = key_block + layout.block_bytes;
  switch (layout.dtype) {
    case DType::kF32:
      PackPlain<uint32_t, 8>(static_cast<const uint32_t*>(keys), static_cast<const uint32_t*>(values), num_tokens,
                             head_dim, reinterpret_cast<uint32_t*>(key_block),
                             reinterpret_cast<uint32_t*>(value_block));
      break;
    case DType::kF16:
      PackPlain<uint16_t, 16>(static_cast<const uint16_t*>(keys), static_cast<const uint16_t*>(values), num_tokens,
                              head_dim, reinterpret_cast<uint16_t*>(key_block),
                              reinterpret_cast<uint16_t*>(value_block));
      break;
    default:
      PackPairs(static_cast<const uint16_t*>(keys), static_cast<const uint16_t*>(values), num_tokens, head_dim,
                reinterpret_cast<uint16_t*>(key_block), reinterpret_cast<uint16_t*>(value_block), layout.block_bytes);
  }
}

}  // namespace dunlin::kernels::cpu
