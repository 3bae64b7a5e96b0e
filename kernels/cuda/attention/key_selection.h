// SPDX-License-Identifier: Apache-2.0
// Sparse attention's choice of keys (kernels/api/key_selection.h): index keys rotated and stored by a group of lanes
// each, the score of a key by one thread, and the choice of a row by the lanes of a block. The scores of a row lie in
// memory between the two, those of kSelectionRows rows at once.
#pragma once

#include "kernels/api/key_selection.h"
#include "kernels/cuda/attention/call.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kIndexHeadsAtOnce = 4;  // whose products with a key a thread sums up at once

DUNLIN_HD inline bool ValidIndex(const KvLayout& layout, int32_t layer, int32_t num_heads) {
  return layout.shape.index_dim > 0 && layout.dtype != DType::kF8E4M3 && layer >= 0 &&
         layer < layout.shape.num_layers && num_heads > 0;
}
inline bool Valid(const StoreIndexKeysParams& params) {
  return params.num_tokens >= 0 && ValidIndex(params.layout, params.layer, params.num_heads) &&
         params.rotary_dim >= 0 && params.rotary_dim <= params.layout.shape.index_dim && params.rotary_dim % 2 == 0;
}
inline bool Valid(const SelectKeysParams& params) {
  return params.num_sequences >= 0 && params.num_rows >= 0 &&
         ValidIndex(params.layout, params.layer, params.num_heads) && params.top_k > 0 && params.blocks.tokens == 0 &&
         params.selected_stride >= (int64_t{params.max_kv_tokens} + 31) / 32;
}

// Byte offset of a layer's index keys. Element (dimension, slot) of a page is dimension * tokens_per_page + slot, so
// that threads with neighbouring keys read neighbouring elements.
DUNLIN_HD inline int64_t IndexBlockOffset(const KvLayout& layout, int32_t page, int32_t layer) {
  return page * static_cast<int64_t>(layout.page_bytes) + (layer + 1) * static_cast<int64_t>(layout.layer_bytes) -
         static_cast<int64_t>(layout.index_block_bytes);
}

template <typename Lanes>
DUNLIN_HD void RotateIndexRow(const Lanes& lanes, const StoreIndexKeysParams& params, int32_t token, float* row) {
  const int32_t half = params.rotary_dim / 2;
  const float* cos_sin = params.cos_sin + int64_t{token} * params.rotary_dim;
  for (int32_t i = lanes.index(); i < half; i += lanes.count()) {
    float& a = row[params.neighbours ? 2 * i : i];
    float& b = row[params.neighbours ? 2 * i + 1 : i + half];
    const float first = a * cos_sin[i] - b * cos_sin[half + i];
    b = b * cos_sin[i] + a * cos_sin[half + i];
    a = first;
  }
  lanes.Sync();
}

// Row `head` of a token: its index queries, and after these its index key, which goes to its page.
template <typename Lanes>
DUNLIN_HD void StoreIndexRow(const Lanes& lanes, const StoreIndexKeysParams& params, int32_t token, int32_t head) {
  const KvLayout& layout = params.layout;
  const int32_t dim = layout.shape.index_dim;
  const bool is_key = head == params.num_heads;
  float* row =
      is_key ? params.keys + int64_t{token} * dim : params.queries + (int64_t{token} * params.num_heads + head) * dim;
  if (params.cos_sin != nullptr) RotateIndexRow(lanes, params, token, row);
  if (!is_key) return;
  unsigned char* block =
      static_cast<unsigned char*>(params.kv_pool) + IndexBlockOffset(layout, params.token_page[token], params.layer);
  for (int32_t d = lanes.index(); d < dim; d += lanes.count()) {
    const int64_t at = int64_t{d} * layout.tokens_per_page + params.token_slot[token];
    if (layout.dtype == DType::kF32) {
      reinterpret_cast<float*>(block)[at] = row[d];
    } else {
      reinterpret_cast<uint16_t*>(block)[at] = layout.dtype == DType::kF16 ? ToFp16(row[d]) : ToBf16(row[d]);
    }
  }
}

// The keys of a query row: those up to its position. limit 0: the row is of no sequence.
struct IndexRow {
  const int32_t* pages;
  int32_t limit;
};
DUNLIN_HD inline IndexRow IndexRowOf(const SelectKeysParams& params, int32_t row) {
  for (int32_t i = 0; i < params.num_sequences; ++i) {
    const SequenceSpan& span = params.sequences[i];
    const int32_t token = row - span.query_start;
    if (token < 0 || token >= span.query_len) continue;
    return {params.page_table + span.page_table_row * params.page_table_stride, span.first_position + token + 1};
  }
  return {nullptr, 0};
}
// Whether the choice of a row depends on scores.
DUNLIN_HD inline bool NeedsScores(const SelectKeysParams& params, const IndexRow& row) {
  return row.limit > params.top_k;
}

// Adds the products of dimension d of a key with so many heads' queries, from head `first` on; past the last head those
// of the last.
DUNLIN_HD inline void AddIndexProducts(const SelectKeysParams& params, const float* queries, int32_t first, int32_t d,
                                       float key, float (&products)[kIndexHeadsAtOnce]) {
  DUNLIN_UNROLL
  for (int32_t i = 0; i < kIndexHeadsAtOnce; ++i) {
    const int32_t head = AtMost(first + i, params.num_heads - 1);
    products[i] = fmaf(queries[int64_t{head} * params.layout.shape.index_dim + d], key, products[i]);
  }
}

// The score of a key: heads in order, of each the sum over dimensions in order. NaN stays NaN.
DUNLIN_HD inline float IndexScore(const SelectKeysParams& params, const IndexRow& row, int32_t query, int32_t key) {
  const KvLayout& layout = params.layout;
  const int32_t dim = layout.shape.index_dim;
  const unsigned char* block = static_cast<const unsigned char*>(params.kv_pool) +
                               IndexBlockOffset(layout, row.pages[key / layout.tokens_per_page], params.layer);
  const int32_t slot = key % layout.tokens_per_page;
  const float* queries = params.queries + int64_t{query} * params.num_heads * dim;
  const float* weights = params.weights + int64_t{query} * params.num_heads;
  float score = 0.0F;
  DUNLIN_NO_UNROLL
  for (int32_t first = 0; first < params.num_heads; first += kIndexHeadsAtOnce) {
    float products[kIndexHeadsAtOnce] = {};
    DUNLIN_NO_UNROLL
    for (int32_t d = 0; d < dim; d += 2) {  // an even number
      const int64_t at = int64_t{d} * layout.tokens_per_page + slot;
      AddIndexProducts(params, queries, first, d, LoadElement(layout.dtype, block, at), products);
      AddIndexProducts(params, queries, first, d + 1, LoadElement(layout.dtype, block, at + layout.tokens_per_page),
                       products);
    }
    DUNLIN_UNROLL
    for (int32_t i = 0; i < kIndexHeadsAtOnce; ++i) {
      if (first + i < params.num_heads) score += weights[first + i] * (products[i] < 0.0F ? 0.0F : products[i]);
    }
  }
  return score;
}

// A larger score has a larger number.
DUNLIN_HD constexpr uint32_t ScoreOrder(float score) {
  const uint32_t bits = FloatBits(score);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}

// Shared memory of the lanes that choose a row's keys, at most kLanes.
template <int kLanes>
struct ChoiceMemory {
  uint32_t counts[256];   // scores by eight bits of their number
  int32_t equal[kLanes];  // in each lane's words, of the threshold's number
};

// The top_k-th largest of the numbers, and how many that are equal to it are taken.
struct ScoreThreshold {
  uint32_t order;
  int32_t equal;
};

// By eight bits at a time. REQUIRES: 0 < top_k <= limit.
template <int kLanes, typename Lanes>
DUNLIN_HD ScoreThreshold FindThreshold(const Lanes& lanes, const float* scores, int32_t limit, int32_t top_k,
                                       ChoiceMemory<kLanes>* memory) {
  ScoreThreshold threshold{0, top_k};
  uint32_t mask = 0;
  DUNLIN_NO_UNROLL
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int32_t i = lanes.index(); i < 256; i += lanes.count()) memory->counts[i] = 0;
    lanes.Sync();
    for (int32_t i = lanes.index(); i < limit; i += lanes.count()) {
      const uint32_t order = ScoreOrder(scores[i]);
      if ((order & mask) == threshold.order) lanes.Count(&memory->counts[order >> shift & 255U]);
    }
    lanes.Sync();
    uint32_t digit = 255;
    for (; static_cast<int32_t>(memory->counts[digit]) < threshold.equal; --digit) {
      threshold.equal -= static_cast<int32_t>(memory->counts[digit]);
    }
    threshold.order |= digit << shift;
    mask |= 255U << shift;
    lanes.Sync();  // the counts have been read
  }
  return threshold;
}

// The bits of a row's keys, each lane's a range of words: where scores are equal the first keys are taken.
template <int kLanes, typename Lanes>
DUNLIN_HD void ChooseKeys(const Lanes& lanes, const float* scores, int32_t limit, int32_t top_k, uint32_t* words,
                          ChoiceMemory<kLanes>* memory) {
  const int32_t num_words = (limit + 31) / 32;
  if (limit <= top_k) {
    for (int32_t i = lanes.index(); i < num_words; i += lanes.count()) {
      words[i] = i + 1 == num_words && limit % 32 != 0 ? (1U << (limit % 32)) - 1 : ~0U;
    }
    return;
  }
  const ScoreThreshold threshold = FindThreshold(lanes, scores, limit, top_k, memory);
  const int32_t each = (num_words + lanes.count() - 1) / lanes.count();
  const int32_t begin = AtMost(lanes.index() * each, num_words);
  const int32_t end = AtMost(begin + each, num_words);
  int32_t equal = 0;
  for (int32_t i = begin * 32; i < AtMost(end * 32, limit); ++i) {
    equal += ScoreOrder(scores[i]) == threshold.order ? 1 : 0;
  }
  memory->equal[lanes.index()] = equal;
  lanes.Sync();
  int32_t left = threshold.equal;  // that this lane and later ones take
  for (int32_t lane = 0; lane < lanes.index(); ++lane) left -= memory->equal[lane];
  for (int32_t word = begin; word < end; ++word) {
    uint32_t bits = 0;
    for (int32_t i = word * 32; i < AtMost(word * 32 + 32, limit); ++i) {
      const uint32_t order = ScoreOrder(scores[i]);
      const bool ties = order == threshold.order;
      if (order > threshold.order || (ties && left > 0)) bits |= 1U << (i % 32);
      left -= ties ? 1 : 0;
    }
    words[word] = bits;
  }
  lanes.Sync();  // the numbers have been read
}

}  // namespace dunlin::kernels::cuda
