// SPDX-License-Identifier: Apache-2.0
// The layout of a KV page. The scheduler sees page ids and counts; only kernels address bytes.
//
// A page holds `tokens_per_page` consecutive tokens of one sequence for every KV head of some layers of a model, in
// `page_bytes` bytes at pool + page_id * page_bytes. Which layers is the engine's business
// (engine/request/kv_groups.h): here they are numbered from 0 in the page. Inside a page: layer-major, then KV head,
// then K block and V block; with values_in_keys there is no V block; after a layer's heads the index keys, where it has
// them. The order inside a K or V block is the device's, by dtype (CPU: kernels/cpu/attention/kv_block.h).
// Index keys are [index_dim, tokens_per_page] of the page's dtype. Unused slots may hold anything, NaN included:
// whoever writes the first token of a packed pair zeroes its partner.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"

namespace dunlin::kernels {

struct KvShape {
  int32_t num_layers;      // > 0, of one page
  int32_t num_kv_heads;    // > 0
  int32_t head_dim;        // > 0, any; odd dims are padded to even inside a block
  int32_t v_head_dim = 0;  // of a value; 0: head_dim. Set by MakeKvLayout
  // A value is the last v_head_dim dimensions of its key (multi-head latent attention). v_head_dim <= head_dim, their
  // difference is even; not with kF8E4M3.
  bool values_in_keys = false;
  int32_t index_dim = 0;  // of a token's index key (key_selection.h), even; 0: none. Not with kF8E4M3
};

struct KvLayout {
  DType dtype;  // any; a kF8E4M3 block ends with one FP32 scale per token
  KvShape shape;
  int32_t tokens_per_page;   // TokensPerPage(dtype)
  size_t key_block_bytes;    // one layer, one head, one page
  size_t value_block_bytes;  // 0 with values_in_keys
  size_t head_bytes;         // K block + V block
  size_t index_block_bytes;  // one layer, one page
  size_t layer_bytes;        // num_kv_heads * head_bytes + index_block_bytes
  size_t page_bytes;         // >= num_layers * layer_bytes; all layouts of a pool have the same page size
};

constexpr int32_t TokensPerPage(DType kv_dtype) {
  return kv_dtype == DType::kF32 ? 8 : kv_dtype == DType::kF8E4M3 ? 32 : 16;
}

// page_bytes: the page size of a pool that holds several layouts, the largest of theirs. 0: the size of the page's own
// blocks, equal for FP32, FP16 and BF16 and larger by 4 bytes per token and block for E4M3.
constexpr KvLayout MakeKvLayout(DType kv_dtype, KvShape shape, size_t page_bytes = 0) {
  KvLayout layout{};
  layout.dtype = kv_dtype;
  layout.shape = shape;
  if (shape.v_head_dim == 0) layout.shape.v_head_dim = shape.head_dim;
  layout.tokens_per_page = TokensPerPage(kv_dtype);
  const auto block_bytes = [&layout](int32_t dim) {
    const size_t padded_dim = (static_cast<size_t>(dim) + 1) / 2 * 2;
    const size_t scale = layout.dtype == DType::kF8E4M3 ? sizeof(float) : 0;
    return (padded_dim * SizeOf(layout.dtype) + scale) * static_cast<size_t>(layout.tokens_per_page);
  };
  layout.key_block_bytes = block_bytes(layout.shape.head_dim);
  layout.value_block_bytes = shape.values_in_keys ? 0 : block_bytes(layout.shape.v_head_dim);
  layout.head_bytes = layout.key_block_bytes + layout.value_block_bytes;
  layout.index_block_bytes =
      static_cast<size_t>(shape.index_dim) * SizeOf(kv_dtype) * static_cast<size_t>(layout.tokens_per_page);
  layout.layer_bytes = static_cast<size_t>(shape.num_kv_heads) * layout.head_bytes + layout.index_block_bytes;
  layout.page_bytes = static_cast<size_t>(shape.num_layers) * layout.layer_bytes;
  if (page_bytes > layout.page_bytes) layout.page_bytes = page_bytes;
  return layout;
}

// Bytes of one token's keys and values over all layers.
constexpr size_t KvBytesPerToken(const KvLayout& layout) {
  return layout.page_bytes / static_cast<size_t>(layout.tokens_per_page);
}

}  // namespace dunlin::kernels
