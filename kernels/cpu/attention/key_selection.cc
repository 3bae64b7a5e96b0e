// SPDX-License-Identifier: Apache-2.0
// Index keys in pages, and the choice of keys by them: scores of some rows over groups of keys, then each row's choice.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/entry_pages.h"
#include "kernels/cpu/context/context.h"
#include "kernels/cpu/context/row_tasks.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int32_t kGroupKeys = 16;       // of RowKernels::index_scores
constexpr int32_t kTaskKeys = 256;       // of a task: 64 KB of keys of 128 BF16 numbers
constexpr int32_t kIndexDimMax = 512;    // a group of keys as floats is 32 KiB of a worker's stack
constexpr int32_t kMaxChoosers = 64;     // of a choice by blocks
constexpr int32_t kTokensPerRange = 16;  // of a task that stores: tokens of a page are stored by one thread or two

// Element (dimension, slot) of a page's index keys is element dimension * tokens_per_page + slot.

void RotateIndex(const StoreIndexKeysParams& params, const float* cos_sin, float* row) {
  const int32_t half = params.rotary_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    float& a = row[params.neighbours ? 2 * i : i];
    float& b = row[params.neighbours ? 2 * i + 1 : i + half];
    const float first = a * cos_sin[i] - b * cos_sin[half + i];
    b = b * cos_sin[i] + a * cos_sin[half + i];
    a = first;
  }
}

void StoreIndexKey(const StoreIndexKeysParams& params, int32_t token, const float* key) {
  const KvLayout& layout = params.layout;
  std::byte* block =
      static_cast<std::byte*>(params.kv_pool) + IndexBlockOffset(layout, params.token_page[token], params.layer);
  for (int32_t d = 0; d < layout.shape.index_dim; ++d) {
    const size_t at = static_cast<size_t>(d) * static_cast<size_t>(layout.tokens_per_page) +
                      static_cast<size_t>(params.token_slot[token]);
    if (layout.dtype == DType::kF32) {
      std::memcpy(block + at * sizeof(float), key + d, sizeof(float));
    } else {
      const uint16_t bits = layout.dtype == DType::kF16 ? FloatToFp16(key[d]) : FloatToBf16(key[d]);
      std::memcpy(block + at * sizeof(bits), &bits, sizeof(bits));
    }
  }
}

// Keys [first, first + kGroupKeys) of a sequence as floats, [index_dim, kGroupKeys]; of pages past the last the last.
void LoadGroup(const SelectKeysParams& params, const int32_t* pages, int32_t first, int32_t last_page, float* keys) {
  const KvLayout& layout = params.layout;
  const int32_t per_page = layout.tokens_per_page;
  for (int32_t slot = 0; slot < kGroupKeys; slot += per_page) {
    const int32_t page = pages[std::min((first + slot) / per_page, last_page)];
    const std::byte* block =
        static_cast<const std::byte*>(params.kv_pool) + IndexBlockOffset(layout, page, params.layer);
    for (int32_t d = 0; d < layout.shape.index_dim; ++d) {
      for (int32_t t = 0; t < per_page; ++t) {
        const auto at = static_cast<size_t>(d * per_page + t);
        float& key = keys[d * kGroupKeys + slot + t];
        if (layout.dtype == DType::kF32) {
          std::memcpy(&key, block + at * sizeof(float), sizeof(float));
          continue;
        }
        uint16_t bits = 0;
        std::memcpy(&bits, block + at * sizeof(bits), sizeof(bits));
        key = layout.dtype == DType::kF16 ? Fp16ToFloat(bits) : Bf16ToFloat(bits);
      }
    }
  }
}

// A larger score has a larger number; NaN has one, too.
uint32_t OrderOf(float score) {
  const auto bits = std::bit_cast<uint32_t>(score);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

// The count-th largest of the scores' numbers, by eight bits at a time, and how many that are equal to it belong to the
// `count`. REQUIRES: 0 < count <= n.
struct Threshold {
  uint32_t order;
  int32_t equal;
};
Threshold LargestOf(const float* scores, int32_t n, int32_t count) {
  Threshold threshold{.order = 0, .equal = count};
  uint32_t mask = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    int32_t histogram[256] = {};
    for (int32_t i = 0; i < n; ++i) {
      const uint32_t order = OrderOf(scores[i]);
      if ((order & mask) == threshold.order) ++histogram[(order >> shift) & 255];
    }
    uint32_t digit = 255;
    for (; histogram[digit] < threshold.equal; --digit) threshold.equal -= histogram[digit];
    threshold.order |= digit << shift;
    mask |= 255U << shift;
  }
  return threshold;
}

// Rows [first_row, first_row + count) of a sequence, at most kSelectionRows.
void SelectRows(DeviceContext* context, const SelectKeysParams& params, const SequenceSpan& span, int32_t first_row,
                int32_t count) {
  const int32_t dim = params.layout.shape.index_dim;
  const int32_t* pages = params.page_table + span.page_table_row * params.page_table_stride;
  const int32_t first_limit = span.first_position + first_row + 1;
  const int32_t keys = first_limit + count - 1;  // that the last row sees
  const int32_t last_page = (keys - 1) / params.layout.tokens_per_page;
  const int64_t row = int64_t{span.query_start} + first_row;
  const int64_t tasks = keys <= params.top_k ? 0 : (keys + kTaskKeys - 1) / kTaskKeys;
  context->pool.Run(tasks, [&](int64_t task, int) {
    alignas(64) float group[kIndexDimMax * kGroupKeys];
    alignas(64) float scores[kGroupKeys];
    const auto end = static_cast<int32_t>(std::min<int64_t>((task + 1) * kTaskKeys, keys));
    for (auto first = static_cast<int32_t>(task * kTaskKeys); first < end; first += kGroupKeys) {
      LoadGroup(params, pages, first, last_page, group);
      for (int32_t r = 0; r < count; ++r) {
        if (first_limit + r <= first) continue;
        context->kernels.index_scores({.keys = group,
                                       .queries = params.queries + (row + r) * params.num_heads * dim,
                                       .weights = params.weights + (row + r) * params.num_heads,
                                       .num_heads = params.num_heads,
                                       .dim = dim,
                                       .scores = scores});
        std::copy_n(scores, std::min(kGroupKeys, keys - first),
                    params.scores + r * int64_t{params.max_kv_tokens} + first);
      }
    }
  });
  context->pool.Run(count, [&](int64_t r, int) {
    ChooseLargest(params.scores + r * params.max_kv_tokens, first_limit + static_cast<int32_t>(r), params.top_k,
                  params.selected + (row + r) * params.selected_stride);
  });
}

// Calls choose(index) for the `count` largest of the scores, of equal ones the first, ascending. REQUIRES: count > 0.
template <typename Choose>
void ForLargest(const float* scores, int32_t n, int32_t count, const Choose& choose) {
  Threshold threshold = LargestOf(scores, n, std::min(count, n));
  for (int32_t i = 0; i < n; ++i) {
    const uint32_t order = OrderOf(scores[i]);
    const bool equal = order == threshold.order;
    if (order < threshold.order || (equal && threshold.equal == 0)) continue;
    threshold.equal -= equal ? 1 : 0;
    choose(i);
  }
}

void ChooseAll(int32_t limit, uint32_t* words) {
  const int32_t num_words = (limit + 31) / 32;
  std::fill_n(words, num_words, ~0U);
  if (limit % 32 != 0) words[num_words - 1] = (1U << (limit % 32)) - 1;
}

// Of a row and a head. scores: of the blocks up to the row's own.
void ChooseBlocks(const SelectKeysParams& params, int32_t limit, float* scores, uint32_t* words) {
  if (limit <= params.top_k) return ChooseAll(limit, words);
  const int32_t tokens = params.blocks.tokens;
  const int32_t blocks = (limit + tokens - 1) / tokens;
  std::fill_n(scores + blocks - params.blocks.local, params.blocks.local, std::numeric_limits<float>::infinity());
  std::fill_n(words, (limit + 31) / 32, 0U);
  ForLargest(scores, blocks, params.top_k / tokens, [&](int32_t block) {
    const int32_t end = std::min((block + 1) * tokens, limit);
    for (int32_t key = block * tokens; key < end; ++key) words[key / 32] |= 1U << (key % 32);
  });
}

// The largest products of each row and head with the keys of a block, to scores [count, num_heads, blocks].
void ScoreBlock(DeviceContext* context, const SelectKeysParams& params, const int32_t* pages, int64_t row,
                int32_t first_limit, int32_t count, int32_t block, int32_t blocks) {
  alignas(64) float group[kIndexDimMax * kGroupKeys];
  alignas(64) float scores[kMaxChoosers * kGroupKeys];
  const int32_t dim = params.layout.shape.index_dim;
  const int32_t keys = first_limit + count - 1;
  const int32_t last_page = (keys - 1) / params.layout.tokens_per_page;
  const int32_t end = std::min((block + 1) * params.blocks.tokens, keys);
  const auto best_of = [&](int32_t r, int32_t head) {
    return params.scores + (int64_t{r} * params.num_heads + head) * blocks + block;
  };
  for (int32_t first = block * params.blocks.tokens; first < end; first += kGroupKeys) {
    LoadGroup(params, pages, first, last_page, group);
    for (int32_t r = 0; r < count; ++r) {
      const int32_t seen = std::min(kGroupKeys, first_limit + r - first);
      if (seen <= 0) continue;
      context->kernels.index_scores({.keys = group,
                                     .queries = params.queries + (row + r) * params.num_heads * dim,
                                     .weights = nullptr,
                                     .num_heads = params.num_heads,
                                     .dim = dim,
                                     .scores = scores});
      for (int32_t head = 0; head < params.num_heads; ++head) {
        const float* of_head = scores + head * kGroupKeys;
        float* best = best_of(r, head);
        const float largest = *std::max_element(of_head, of_head + seen);
        *best = first == block * params.blocks.tokens ? largest : std::max(*best, largest);
      }
    }
  }
}

// As SelectRows, by blocks.
void SelectBlocks(DeviceContext* context, const SelectKeysParams& params, const SequenceSpan& span, int32_t first_row,
                  int32_t count) {
  const int32_t* pages = params.page_table + span.page_table_row * params.page_table_stride;
  const int32_t first_limit = span.first_position + first_row + 1;
  const int32_t keys = first_limit + count - 1;
  const int32_t blocks = (keys + params.blocks.tokens - 1) / params.blocks.tokens;
  const int64_t row = int64_t{span.query_start} + first_row;
  context->pool.Run(keys <= params.top_k ? 0 : blocks, [&](int64_t block, int) {
    ScoreBlock(context, params, pages, row, first_limit, count, static_cast<int32_t>(block), blocks);
  });
  context->pool.Run(int64_t{count} * params.num_heads, [&](int64_t i, int) {
    ChooseBlocks(params, first_limit + static_cast<int32_t>(i / params.num_heads), params.scores + i * blocks,
                 params.selected + (row * params.num_heads + i) * params.selected_stride);
  });
}

bool ValidBlocks(const SelectKeysParams& params) {
  const KeyBlocks& blocks = params.blocks;
  if (blocks.tokens == 0) return true;
  return blocks.tokens > 0 && blocks.tokens % kGroupKeys == 0 && blocks.local >= 1 &&
         params.top_k % blocks.tokens == 0 && params.top_k / blocks.tokens >= blocks.local &&
         params.num_heads <= blocks.tokens / 2 && params.num_heads <= kMaxChoosers;
}

bool ValidIndex(const KvLayout& layout, int32_t layer, int32_t num_heads) {
  return layout.shape.index_dim > 0 && layout.shape.index_dim <= kIndexDimMax && layout.dtype != DType::kF8E4M3 &&
         layer >= 0 && layer < layout.shape.num_layers && num_heads > 0;
}

}  // namespace

void ChooseLargest(const float* scores, int32_t limit, int32_t top_k, uint32_t* words) {
  if (limit <= top_k) return ChooseAll(limit, words);
  std::fill_n(words, (limit + 31) / 32, 0U);
  ForLargest(scores, limit, top_k, [words](int32_t i) { words[i / 32] |= 1U << (i % 32); });
}

KernelStatus StoreIndexKeys(DeviceContext* context, const StoreIndexKeysParams& params) {
  const int32_t dim = params.layout.shape.index_dim;
  if (params.num_tokens < 0 || !ValidIndex(params.layout, params.layer, params.num_heads) || params.rotary_dim < 0 ||
      params.rotary_dim > dim || params.rotary_dim % 2 != 0) {
    return KernelStatus::kInvalidArgument;
  }
  const int32_t ranges = (params.num_tokens + kTokensPerRange - 1) / kTokensPerRange;
  context->pool.Run(ranges, [&](int64_t range, int) {
    const auto end = static_cast<int32_t>(std::min<int64_t>((range + 1) * kTokensPerRange, params.num_tokens));
    for (auto token = static_cast<int32_t>(range * kTokensPerRange); token < end; ++token) {
      float* key = params.keys + int64_t{token} * dim;
      if (params.cos_sin != nullptr) {
        const float* cos_sin = params.cos_sin + int64_t{token} * params.rotary_dim;
        RotateIndex(params, cos_sin, key);
        float* query = params.queries + int64_t{token} * params.num_heads * dim;
        for (int32_t h = 0; h < params.num_heads; ++h) RotateIndex(params, cos_sin, query + int64_t{h} * dim);
      }
      StoreIndexKey(params, token, key);
    }
  });
  return KernelStatus::kOk;
}

KernelStatus SelectKeys(DeviceContext* context, const SelectKeysParams& params) {
  if (params.num_sequences < 0 || !ValidIndex(params.layout, params.layer, params.num_heads) || params.top_k < 1 ||
      !ValidBlocks(params) || params.selected_stride < (int64_t{params.max_kv_tokens} + 31) / 32) {
    return KernelStatus::kInvalidArgument;
  }
  for (int32_t i = 0; i < params.num_sequences; ++i) {
    const SequenceSpan& span = params.sequences[i];
    if (span.query_len < 0 || span.first_position + span.query_len > params.max_kv_tokens) {
      return KernelStatus::kInvalidArgument;
    }
    for (int32_t row = 0; row < span.query_len; row += kSelectionRows) {
      const int32_t count = std::min(kSelectionRows, span.query_len - row);
      (params.blocks.tokens > 0 ? SelectBlocks : SelectRows)(context, params, span, row, count);
    }
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
