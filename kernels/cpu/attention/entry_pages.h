// SPDX-License-Identifier: Apache-2.0
// Where entries of groups of tokens lie in pages (kernels/api/compressed_attention.h), and the choice among scores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/compressed_attention.h"

namespace dunlin::kernels::cpu {

// Bytes from page 0 to the index block of a page's layer.
inline size_t IndexBlockOffset(const KvLayout& layout, int32_t page, int32_t layer) {
  return static_cast<size_t>(page) * layout.page_bytes + static_cast<size_t>(layer + 1) * layout.layer_bytes -
         layout.index_block_bytes;
}

// Bytes from page 0 to entry `entry`. pages: of the sequence.
inline size_t EntryOffset(const EntryPlace& entries, const int32_t* pages, int32_t entry) {
  const KvLayout& layout = entries.place.layout;
  const int32_t last = (entry + 1) * entries.rate - 1;
  const int32_t in_page = last % layout.tokens_per_page / entries.rate;
  const auto element = static_cast<size_t>(in_page * entries.entry_dim + entries.place.offset);
  return IndexBlockOffset(layout, pages[last / layout.tokens_per_page], entries.place.layer) +
         element * SizeOf(layout.dtype);
}

// Whether the place can hold entries of which some have `dim` elements from its offset on.
inline bool ValidEntries(const EntryPlace& entries, int32_t dim) {
  const KvLayout& layout = entries.place.layout;
  if (layout.dtype == DType::kF8E4M3 || entries.rate < 2 || entries.entry_dim < 1) return false;
  if (entries.place.offset < 0 || dim < 1 || entries.place.offset + dim > entries.entry_dim) return false;
  if (entries.place.layer < 0 || entries.place.layer >= layout.shape.num_layers) return false;
  const int32_t tokens = layout.tokens_per_page;
  if (entries.rate % tokens != 0 && tokens % entries.rate != 0) return false;
  const int64_t in_page = entries.rate >= tokens ? 1 : tokens / entries.rate;
  return in_page * entries.entry_dim <= int64_t{layout.shape.index_dim} * tokens;
}

// Sets bit i of `words` for the top_k largest of `limit` scores, of equal ones the first; for all where there are no
// more. Later bits of the last word are 0.
void ChooseLargest(const float* scores, int32_t limit, int32_t top_k, uint32_t* words);

}  // namespace dunlin::kernels::cpu
