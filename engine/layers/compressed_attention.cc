// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/compressed_attention.h"

#include <algorithm>

#include "engine/layers/attention.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

CompressedAttention::CompressedAttention(LayerContext* context, const LayerWeights& weights)
    : context_(context),
      layer_(weights),
      weights_(weights.compressed),
      attention_(context->config.attention),
      buffers_(PlaceCompressedBuffers(context->config, context->buffers.max_tokens, context->buffers.max_context_tokens,
                                      context->buffers.compressed)) {}

Linear CompressedAttention::InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer) {
  return {context, weights.latent.kv_down, InputIndex(layer, LayerInput::kQkv)};
}

bool CompressedAttention::StoreKv() const {
  const int64_t stride = attention_.qkv_features();
  float* const key = context_->buffers.qkv + attention_.query_features();
  context_->rows.query = context_->buffers.qkv;
  context_->rows.query_stride = stride;
  kernels::RotateHeadsParams rotate = Rotation(key, stride, 1, attention_.head_dim);
  rotate.norm = layer_.latent.kv_norm.weight;
  rotate.epsilon = context_->config.norm.epsilon;
  kernels::RotateAndStoreKvParams store = KvParamsOf(*context_, layer_);
  store.cos_sin = nullptr;
  store.rotary_dim = 0;
  const int32_t index_offset = 2 * attention_.compressed.series(context_->layer) * attention_.head_dim;
  return InputOf(context_, layer_, context_->layer).Run("key", Columns{key, stride}) &&
         context_->Run(&DeviceOps::rotate_heads, rotate, "key norm and rotation") &&
         (rate() == 0 || Compress("entry rows", weights_.keys, attention_.head_dim, 0, 0)) &&
         (!chooses() ||
          Compress("index entry rows", weights_.index, attention_.indexer.dim, index_offset, attention_.head_dim)) &&
         Query() && context_->Run(&DeviceOps::rotate_and_store_kv, store, "store kv") && (!chooses() || Choose());
}

// Products share the layer's input unless they take it in another format; then the norm runs again.
bool CompressedAttention::Compress(const char* op, const CompressedWeights::Entries& weights, int32_t dim,
                                   int32_t row_offset, int32_t entry_offset) const {
  const Linear rows(context_, weights.rows, InputIndex(context_->layer, LayerInput::kQkv));
  if (!NormAgainFor(context_, layer_.attention_norm, rows)) return false;
  const kernels::PagedAttentionParams pages = AttentionParamsOf(*context_, layer_);
  const RotarySpec& rotary = context_->config.rotary;
  const int32_t list = std::max(rotary.index(context_->layer), 0);
  const float* const inv_freq = context_->buffers.position_constants + rotary.dims_before(list) / 2;
  const kernels::PagePlace place{pages.layout, pages.layer, row_offset, pages.page_table};
  const kernels::CompressKeysParams params{.rows = buffers_.rows,
                                           .series = attention_.compressed.series(context_->layer),
                                           .dim = dim,
                                           .bias = weights.bias,
                                           .norm = weights.norm.weight,
                                           .epsilon = context_->config.norm.epsilon,
                                           .inv_freq = inv_freq,
                                           .attention_factor = rotary.attention_factor(list),
                                           .rotary_dim = attention_.compressed.rope_dim,
                                           .kv_pool = context_->buffers.kv_pool,
                                           .row_place = place,
                                           .entries = Entries(entry_offset),
                                           .page_table_stride = pages.page_table_stride,
                                           .sequences = pages.sequences,
                                           .num_sequences = pages.num_sequences};
  return rows.Run(op, nullptr, buffers_.rows, context_->rows.count) &&
         context_->Run(&DeviceOps::compress_keys, params, "entries");
}

kernels::EntryPlace CompressedAttention::Entries(int32_t offset) const {
  const PassInputs& inputs = context_->inputs;
  const KvPlace& place = context_->entry_place();
  return {
      .place = {.layout = context_->kv_layouts[static_cast<size_t>(place.shape)],
                .layer = place.layer_in_page,
                .offset = offset,
                .page_table = inputs.page_table + int64_t{place.group} * inputs.spans.count * inputs.page_table_stride},
      .entry_dim = attention_.entry_dim(context_->layer),
      .rate = rate()};
}

kernels::RotateHeadsParams CompressedAttention::Rotation(float* rows, int64_t stride, int32_t num_heads,
                                                         int32_t head_dim) const {
  return {.rows = rows,
          .row_stride = stride,
          .num_rows = context_->rows.count,
          .num_heads = num_heads,
          .head_dim = head_dim,
          .norm = nullptr,
          .epsilon = 0.0F,
          .cos_sin = KvParamsOf(*context_, layer_).cos_sin,
          .rotary_dim = attention_.compressed.rope_dim,
          .back = false};
}

bool CompressedAttention::Query() const {
  const int32_t input = InputIndex(context_->layer, LayerInput::kQkv);
  const Linear down(context_, layer_.latent.query_down, input);
  const Linear query(context_, layer_.latent.query, input);
  const Linear index_query(context_, layer_.indexer.query, input);
  const Linear index_weights(context_, layer_.indexer.weights, input);
  const int64_t stride = attention_.qkv_features();
  kernels::RotateHeadsParams rotate =
      Rotation(context_->buffers.qkv, stride, attention_.num_heads, attention_.head_dim);
  rotate.epsilon = context_->config.norm.epsilon;
  const int32_t count = context_->rows.count;
  const bool weighed = !chooses() || (NormAgainFor(context_, layer_.attention_norm, index_weights) &&
                                      index_weights.Run("index weights", nullptr, buffers_.index_weights, count));
  return weighed && NormAgainFor(context_, layer_.attention_norm, down) &&
         down.Run("query down", nullptr, buffers_.down, count) && NormDown() &&
         RunOfRank("query", query, Columns{context_->buffers.qkv, stride}) &&
         context_->Run(&DeviceOps::rotate_heads, rotate, "query norms and rotation") &&
         (!chooses() ||
          RunOfRank("index query", index_query, Columns{buffers_.index_queries, attention_.indexer.query_features()}));
}

bool CompressedAttention::NormDown() const {
  kernels::NormParams params = Norm(context_, layer_.latent.query_norm).Params(context_->rows.count);
  kernels::Activation width{.columns = attention_.latent.query_rank};
  params.in = params.rows_out = buffers_.down;
  params.out = &width;
  return context_->Run(&DeviceOps::norm, params, "query norm");
}

// The input is no LayerInput: not seen by observers.
bool CompressedAttention::RunOfRank(const char* op, const Linear& linear, const Columns& out) const {
  const int32_t count = context_->rows.count;
  const kernels::QuantizeParams params{
      .in = buffers_.down, .in_stride = attention_.latent.query_rank, .out = linear.Input(count), .num_rows = count};
  return context_->Run(&DeviceOps::quantize, params, op) && linear.Run(op, out);
}

bool CompressedAttention::Choose() const {
  const IndexerSpec& indexer = attention_.indexer;
  const kernels::PagedAttentionParams pages = AttentionParamsOf(*context_, layer_);
  const int32_t most = NumEntries(attention_, context_->buffers.max_context_tokens);
  const kernels::RotateHeadsParams rotate =
      Rotation(buffers_.index_queries, indexer.query_features(), indexer.num_heads, indexer.dim);
  const kernels::SelectEntriesParams select{.queries = buffers_.index_queries,
                                            .weights = buffers_.index_weights,
                                            .num_heads = indexer.num_heads,
                                            .dim = indexer.dim,
                                            .top_k = indexer.top_k,
                                            .kv_pool = pages.kv_pool,
                                            .entries = Entries(attention_.head_dim),
                                            .page_table_stride = pages.page_table_stride,
                                            .sequences = pages.sequences,
                                            .num_sequences = pages.num_sequences,
                                            .max_entries = most,
                                            .scores = buffers_.scores,
                                            .selected = buffers_.selected,
                                            .selected_stride = EntryWords(most)};
  return context_->Run(&DeviceOps::rotate_heads, rotate, "index query rotation") &&
         context_->Run(&DeviceOps::select_entries, select, "choice of entries");
}

bool CompressedAttention::Run(const Linear& next) const {
  const int64_t features = attention_.query_features();
  float* const heads = context_->buffers.attention;
  kernels::RotateHeadsParams back = Rotation(heads, features, attention_.num_heads, attention_.head_dim);
  back.back = true;
  const RankPart all{0, attention_.compressed.out_features()};
  return Attend(heads) && context_->Run(&DeviceOps::rotate_heads, back, "rotation back") && MultiplyGroups(heads) &&
         QuantizeColumns(context_, "attention quantize", next, ColumnsOf(buffers_.groups, all), context_->rows.count);
}

bool CompressedAttention::Attend(float* out) const {
  kernels::PagedAttentionParams window = AttentionParamsOf(*context_, layer_);
  window.out = out;
  const int32_t group_tokens = rate();
  if (group_tokens == 0) return context_->Run(&DeviceOps::paged_attention, window, "paged attention");
  const int32_t entries = window.max_kv_tokens / group_tokens;
  window.selection.most = window.window + (chooses() ? std::min(entries, attention_.indexer.top_k) : entries);
  if (chooses()) {
    window.selection.bits = buffers_.selected;
    window.selection.stride = EntryWords(NumEntries(attention_, context_->buffers.max_context_tokens));
  }
  const kernels::CompressedAttentionParams params{.window = window, .entries = Entries(0)};
  return context_->Run(&DeviceOps::compressed_attention, params, "compressed attention");
}

// The buffer activation holds rounded rows of as many groups as it has room for.
bool CompressedAttention::MultiplyGroups(const float* heads) const {
  const LayerBuffers& buffers = context_->buffers;
  const Linear first(context_, weights_.out_down.front(), InputIndex(context_->layer, LayerInput::kQkv));
  const size_t group_bytes =
      buffers.device->ops->activation_bytes(first.weight().precision, buffers.max_tokens, first.columns());
  const auto groups = static_cast<int32_t>(std::min(weights_.out_down.size(), buffers.activation_bytes / group_bytes));
  const kernels::Activation rounded = first.InputIn(buffers.activation, groups * buffers.max_tokens);
  const kernels::BatchedGemmParams params{.in = heads,
                                          .in_stride = attention_.query_features(),
                                          .in_batch_stride = first.columns(),
                                          .rounded = &rounded,
                                          .weights = weights_.out_down.data(),
                                          .num_batches = static_cast<int32_t>(weights_.out_down.size()),
                                          .out = buffers_.groups,
                                          .out_stride = attention_.compressed.out_features(),
                                          .out_batch_stride = attention_.compressed.out_rank,
                                          .num_rows = context_->rows.count};
  return context_->Run(&DeviceOps::batched_gemm, params, "products of groups");
}

}  // namespace dunlin::engine
