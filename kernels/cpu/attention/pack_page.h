// SPDX-License-Identifier: Apache-2.0
// A page's K and V of one head from whole rows that have its dtype already: what dense attention packs and what a
// prompt's tokens fill; and V from K, where a page has keys alone. Thread rule: plain memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/kv_layout.h"

namespace dunlin::kernels::cpu {

// The keys of a whole page, rows: [tokens_per_page, head_dim], row_bytes apart, into its K block. False, and nothing
// written, where the dtype or the dimension must be stored token by token: StoreKeyPart.
bool PackPageKeys(const KvLayout& layout, const std::byte* rows, size_t row_bytes, std::byte* key_block);

// The values of the page's first `tokens` tokens, rows: [tokens, v_head_dim], row_bytes apart, into its V block. Not
// E4M3, whose tokens have scales.
void PackPageValues(const KvLayout& layout, const std::byte* rows, size_t row_bytes, int32_t tokens,
                    std::byte* value_block);

// The values that a page's keys hold (KvShape::values_in_keys), in the order of a V block. keys: those written, 1 to
// tokens_per_page; the second token of a BF16 pair that has one key becomes zeros.
void UnpackPageValues(const KvLayout& layout, const std::byte* key_block, int32_t keys, std::byte* value_block);

}  // namespace dunlin::kernels::cpu
