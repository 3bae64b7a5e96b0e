// EFFICIENT attention in its plain form: one query row is the work of one warp, without tensor cores, for any page
// dtype and any head_dim up to kMaxHeadDim. Keys are taken in chunks at absolute multiples of kChunkKeys; each chunk is
// reduced alone (maximum, sum, weighted values), and chunks are merged in ascending order. A row reads nothing of its
// neighbours, so its bits are those of the row alone. Source: Rabe & Staats 2021, section 3.
#pragma once

#include <cmath>

#include "kernels/api/attention.h"
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/layout.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kChunkKeys = 256;
inline constexpr int32_t kMaxHeadDim = 256;
inline constexpr int32_t kMaxDimsPerLane = kMaxHeadDim / 32;  // with the 32 lanes of a warp

// The keys [start, end) that a row sees.
struct KeyRange {
  int32_t start;
  int32_t end;
};
// position: of the row; kv_len: keys of its sequence.
DUNLIN_HD constexpr KeyRange VisibleKeys(int32_t position, int32_t kv_len, bool causal, int32_t window) {
  if (!causal) return {0, kv_len};
  const int32_t end = position + 1;
  return {window > 0 && end > window ? end - window : 0, end};
}

// One sequence's keys and values of one layer and KV head.
struct HeadPages {
  const unsigned char* pool;
  const KvLayout* layout;
  int32_t layer;
  int32_t kv_head;
  const int32_t* pages;  // page ids, in order

  DUNLIN_HD const unsigned char* KeyBlock(int32_t key) const {
    return pool + KeyBlockOffset(*layout, pages[key / layout->tokens_per_page], layer, kv_head);
  }
};

// Element d of a slot's row, without its scale.
DUNLIN_HD inline float BlockElement(DType dtype, const unsigned char* block, int64_t at) {
  switch (dtype) {
    case DType::kF32:
      return reinterpret_cast<const float*>(block)[at];
    case DType::kF16:
      return FromFp16(reinterpret_cast<const uint16_t*>(block)[at]);
    case DType::kBF16:
      return FromBf16(reinterpret_cast<const uint16_t*>(block)[at]);
    case DType::kF8E4M3:
      return FromE4M3(block[at]);
  }
  return 0.0F;
}
DUNLIN_HD inline float SlotScale(const KvLayout& layout, const unsigned char* block, int32_t slot) {
  if (layout.dtype != DType::kF8E4M3) return 1.0F;
  return *reinterpret_cast<const float*>(block + KvScaleOffset(layout.shape.head_dim, layout.tokens_per_page, slot));
}

// What is done to a product of query and key: scale, softcap, and the change to powers of two.
struct ScoreForm {
  float scale;
  float softcap;  // 0: none
  DUNLIN_HD float operator()(float product) const {
    constexpr float kLog2E = 1.44269504F;
    float score = product * scale;
    if (softcap > 0.0F) score = softcap * tanhf(score / softcap);
    return score * kLog2E;
  }
};

// A chunk's or a row's softmax so far: weighted values of this lane's dims lane, lane + count, ...
template <int kDims>
struct PartialRow {
  float maximum = -INFINITY;  // in powers of two
  float sum = 0.0F;
  float values[kDims] = {};
};

// Appends the later of two partial rows to the earlier. A part without keys changes nothing.
template <int kDims>
DUNLIN_HD void Merge(const PartialRow<kDims>& later, PartialRow<kDims>* row) {
  if (later.sum == 0.0F) return;
  const float maximum = later.maximum > row->maximum ? later.maximum : row->maximum;
  const float keep = row->sum == 0.0F ? 0.0F : exp2f(row->maximum - maximum);
  const float take = exp2f(later.maximum - maximum);
  row->sum = row->sum * keep + later.sum * take;
  for (int i = 0; i < kDims; ++i) row->values[i] = row->values[i] * keep + later.values[i] * take;
  row->maximum = maximum;
}

// Keys [first, end) of one chunk. weights: [kChunkKeys], shared by the lanes.
template <int kDims, typename Lanes>
DUNLIN_HD PartialRow<kDims> ReduceChunk(const Lanes& lanes, const HeadPages& pages, const float* query,
                                        const ScoreForm& form, int32_t first, int32_t end, float* weights) {
  const KvLayout& layout = *pages.layout;
  const int32_t head_dim = layout.shape.head_dim;
  PartialRow<kDims> part;
  float maximum = -INFINITY;
  DUNLIN_NO_UNROLL
  for (int32_t key = first + lanes.index(); key < end; key += lanes.count()) {
    const unsigned char* block = pages.KeyBlock(key);
    const int32_t slot = key % layout.tokens_per_page;
    const int64_t at = KvElement(head_dim, slot, 0);
    float product = 0.0F;
    for (int32_t d = 0; d < head_dim; ++d) product += query[d] * BlockElement(layout.dtype, block, at + d);
    const float score = form(product * SlotScale(layout, block, slot));
    weights[key - first] = score;
    maximum = fmaxf(maximum, score);
  }
  part.maximum = lanes.Largest(maximum);
  // All scores are -inf: nothing to weigh. NaN scores leave a NaN in the sum.
  const float center = part.maximum == -INFINITY ? 0.0F : part.maximum;
  float sum = 0.0F;
  for (int32_t key = first + lanes.index(); key < end; key += lanes.count()) {
    const float weight = exp2f(weights[key - first] - center);
    weights[key - first] = weight;
    sum += weight;
  }
  part.sum = lanes.Sum(sum);
  lanes.Sync();
  DUNLIN_NO_UNROLL
  for (int32_t key = first; key < end; ++key) {
    const unsigned char* block = pages.KeyBlock(key) + layout.key_block_bytes;
    const int32_t slot = key % layout.tokens_per_page;
    const int64_t at = KvElement(head_dim, slot, 0);
    const float weight = weights[key - first] * SlotScale(layout, block, slot);
    for (int i = 0; i < kDims; ++i) {
      const int32_t d = lanes.index() + i * lanes.count();
      if (d < head_dim) part.values[i] += weight * BlockElement(layout.dtype, block, at + d);
    }
  }
  lanes.Sync();  // before the next chunk's scores take the place of these weights
  return part;
}

// out[head_dim] = softmax(query . keys) values over a range of keys; zeros where there is none.
template <int kDims, typename Lanes>
DUNLIN_HD void EfficientRow(const Lanes& lanes, const HeadPages& pages, const float* query, const ScoreForm& form,
                            KeyRange keys, float* weights, float* out) {
  PartialRow<kDims> row;
  for (int32_t chunk = keys.start / kChunkKeys * kChunkKeys; chunk < keys.end; chunk += kChunkKeys) {
    const int32_t first = chunk > keys.start ? chunk : keys.start;
    const int32_t end = chunk + kChunkKeys < keys.end ? chunk + kChunkKeys : keys.end;
    Merge(ReduceChunk<kDims>(lanes, pages, query, form, first, end, weights), &row);
  }
  const float factor = row.sum == 0.0F ? 0.0F : 1.0F / row.sum;
  for (int i = 0; i < kDims; ++i) {
    const int32_t d = lanes.index() + i * lanes.count();
    if (d < pages.layout->shape.head_dim) out[d] = row.values[i] * factor;
  }
}

// Row `token` of a sequence, query head `head`.
template <int kDims, typename Lanes>
DUNLIN_HD void EfficientPagedRow(const Lanes& lanes, const PagedAttentionParams& params, const SequenceSpan& span,
                                 int32_t token, int32_t head, float* weights) {
  const KvShape& shape = params.layout.shape;
  const int64_t row = int64_t{span.query_start} + token;
  const HeadPages pages{.pool = static_cast<const unsigned char*>(params.kv_pool),
                        .layout = &params.layout,
                        .layer = params.layer,
                        .kv_head = head / (params.num_heads / shape.num_kv_heads),
                        .pages = params.page_table + span.page_table_row * params.page_table_stride};
  const KeyRange keys =
      VisibleKeys(span.first_position + token, span.first_position + span.query_len, params.causal, params.window);
  EfficientRow<kDims>(lanes, pages, params.query + row * params.query_stride + int64_t{head} * shape.head_dim,
                      ScoreForm{params.scale, params.softcap}, keys, weights,
                      params.out + (row * params.num_heads + head) * shape.head_dim);
}

}  // namespace dunlin::kernels::cuda
