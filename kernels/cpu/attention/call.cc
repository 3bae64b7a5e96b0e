// SPDX-License-Identifier: Apache-2.0
// Sequence views and tiles of a call.
#include "kernels/cpu/attention/call.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu/attention/kv_block.h"
#include "kernels/cpu/attention/pack_page.h"

namespace dunlin::kernels::cpu {

SequenceView AttentionCall::Sequence(int32_t index) const {
  SequenceView view{.index = index,
                    .query_offset = index * int64_t{num_heads} * query.head_stride,
                    .out_offset = index * int64_t{num_heads} * out.head_stride,
                    .query_len = dense_query_len,
                    .kv_len = dense_kv_len,
                    .first_position = dense_first_position,
                    .first_limit = 0,
                    .limit_step = causal || window > 0 ? 1 : 0,
                    .window = window,
                    .pages = page_table + index * page_table_stride};
  if (spans != nullptr) {
    const SequenceSpan& span = spans[index];
    view.query_offset = span.query_start * query.token_stride;
    view.out_offset = span.query_start * out.token_stride;
    view.query_len = span.query_len;
    view.kv_len = span.first_position + span.query_len;
    view.first_position = span.first_position;
    view.pages = page_table + span.page_table_row * page_table_stride;
  }
  view.first_limit = LimitAt(view.first_position, view.kv_len, causal, window);
  return view;
}

constexpr float kLog2E = 1.44269504F;

// A negative scale moves its sign into the query and a zero one makes every score 0, both exactly, so that the maximum
// of the unscaled scores is the maximum of the scaled ones.
void AttentionCall::SetScale(float softmax_scale) {
  query_sign = softmax_scale > 0.0F ? 1.0F : (softmax_scale < 0.0F ? -1.0F : 0.0F);
  exponent_scale = softmax_scale == 0.0F ? 1.0F : std::fabs(softmax_scale) * kLog2E;
}

void AttentionCall::SetRule(float softmax_scale, const ScoreRule& score_rule) {
  adjusts = true;
  rule = score_rule;
  rule.scale = std::fabs(softmax_scale);
  exponent_scale = kLog2E;
}

// In decode this runs between memory-bound loops, where each instruction delays the next cache miss.
void ListTile(const AttentionCall& call, const SequenceView& sequence, int32_t kv_head, int32_t first,
              const std::byte** keys, const std::byte** values) {
  const KvLayout& layout = call.layout;
  const auto page_bits = std::countr_zero(static_cast<uint32_t>(layout.tokens_per_page));
  const int32_t* pages = sequence.pages + (first >> page_bits);
  const int32_t last = ((std::min(first + kTileKeys, sequence.kv_len) - 1) >> page_bits) - (first >> page_bits);
  const std::byte* page_0 = KeyBlock(call.kv_pool, layout, 0, call.layer, kv_head);
  const int32_t num_blocks = kTileKeys >> page_bits;
  const size_t to_values = layout.shape.values_in_keys ? 0 : layout.key_block_bytes;
#pragma GCC unroll 4
  for (int32_t i = 0; i < num_blocks; ++i) {
    keys[i] = page_0 + static_cast<size_t>(pages[i <= last ? i : 0]) * layout.page_bytes;
    values[i] = keys[i] + to_values;
  }
}

TileValueBlocks TileValues(const AttentionCall& call, const std::byte* const* values, const std::byte* const* next,
                           int32_t keys, std::byte* memory, const std::byte** made) {
  const KvLayout& layout = call.layout;
  if (!layout.shape.values_in_keys) return {.values = values, .next = next};
  const int num_blocks = TileBlocks(layout);
  const auto block_bytes = static_cast<size_t>(MadeValueBytes(call) / num_blocks);
  for (int i = 0; i < num_blocks; ++i) {
    std::byte* const block = memory + static_cast<size_t>(i) * block_bytes;
    const int32_t of_page = std::min(keys - i * layout.tokens_per_page, layout.tokens_per_page);
    if (of_page > 0) UnpackPageValues(layout, values[i], of_page, block);
    made[i] = block;
  }
  return {.values = made, .next = made};
}

const float* LoadValueScales(const AttentionCall& call, const std::byte* const* values, int tiles, int32_t first,
                             float* scales) {
  if (!call.ops->scales_p) return nullptr;
  std::fill_n(scales, first, 0.0F);
  const int32_t tokens = call.layout.tokens_per_page;
  for (int i = 0; i < tiles * TileBlocks(call.layout); ++i) {
    std::memcpy(scales + first + i * tokens, values[i] + Fp8ScaleOffset(call.v_head_dim(), 0),
                static_cast<size_t>(tokens) * sizeof(float));
  }
  return scales;
}

}  // namespace dunlin::kernels::cpu
