// Packs rows of K and V that are already in the KV dtype into the blocks of a page, bit by bit (no arithmetic): the way
// in of dense attention. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/kv_layout.h"

namespace dunlin::kernels::cpu {

// keys, values: [num_tokens, head_dim] of layout.dtype, contiguous; 1 <= num_tokens <= layout.tokens_per_page.
// key_block: 2 * layout.block_bytes; slots past num_tokens become zeros.
void PackPage(const KvLayout& layout, const void* keys, const void* values, int32_t num_tokens, std::byte* key_block);

}  // namespace dunlin::kernels::cpu
