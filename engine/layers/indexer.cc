// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/indexer.h"

#include "engine/layers/attention.h"
#include "engine/layers/norm.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

// Source: transformers 5.24, models/deepseek_v32, DeepseekV32Indexer.
constexpr float kIndexNormEpsilon = 1e-6F;

}  // namespace

Indexer::Indexer(LayerContext* context, const LayerWeights& weights)
    : context_(context),
      layer_(weights),
      weights_(weights.indexer),
      config_(context->config.attention),
      buffers_(PlaceIndexerBuffers(context->config, context->buffers.max_tokens, context->buffers.max_context_tokens,
                                   context->buffers.indexer)) {}

bool Indexer::Inputs() const {
  if (!chooses()) return true;
  const int32_t count = context_->rows.count;
  const int32_t input = InputIndex(context_->layer, LayerInput::kQkv);
  const Linear key(context_, weights_.key, input);
  const Linear weights(context_, weights_.weights, input);
  kernels::NormParams norm = Norm(context_, weights_.key_norm).Params(count);
  kernels::Activation width{.columns = config_.indexer.dim};
  norm.kind = kernels::NormKind::kLayerNorm;
  norm.epsilon = kIndexNormEpsilon;
  norm.in = norm.rows_out = buffers_.keys;
  norm.out = &width;
  return NormAgainFor(context_, layer_.attention_norm, key) && key.Run("index key", nullptr, buffers_.keys, count) &&
         weights.Run("index weights", nullptr, buffers_.weights, count) &&
         context_->Run(&DeviceOps::norm, norm, "index key norm");
}

// As the heads' products: not seen by observers.
bool Indexer::Queries(const float* latent_rows) const {
  if (!chooses()) return true;
  const int32_t count = context_->rows.count;
  const Linear query(context_, weights_.query, InputIndex(context_->layer, LayerInput::kQkv));
  const kernels::QuantizeParams rows{
      .in = latent_rows, .in_stride = config_.latent.query_rank, .out = query.Input(count), .num_rows = count};
  return context_->Run(&DeviceOps::quantize, rows, "index query") &&
         query.Run("index query", nullptr, buffers_.queries, count);
}

bool Indexer::Select() const {
  if (!chooses()) return true;
  const IndexerSpec& indexer = config_.indexer;
  const kernels::RotateAndStoreKvParams kv = KvParamsOf(*context_, layer_);
  const kernels::StoreIndexKeysParams store{.queries = buffers_.queries,
                                            .keys = buffers_.keys,
                                            .cos_sin = kv.cos_sin,
                                            .rotary_dim = kv.rotary_dim,
                                            .neighbours = indexer.neighbours,
                                            .num_heads = indexer.num_heads,
                                            .kv_pool = kv.kv_pool,
                                            .layout = kv.layout,
                                            .layer = kv.layer,
                                            .token_page = kv.token_page,
                                            .token_slot = kv.token_slot,
                                            .num_tokens = kv.num_tokens};
  const kernels::PagedAttentionParams all = AttentionParamsOf(*context_, layer_);
  const kernels::SelectKeysParams select{.queries = buffers_.queries,
                                         .weights = buffers_.weights,
                                         .num_heads = indexer.num_heads,
                                         .top_k = indexer.top_k,
                                         .kv_pool = all.kv_pool,
                                         .layout = all.layout,
                                         .layer = all.layer,
                                         .page_table = all.page_table,
                                         .page_table_stride = all.page_table_stride,
                                         .sequences = all.sequences,
                                         .num_sequences = all.num_sequences,
                                         .num_rows = kv.num_tokens,
                                         .max_kv_tokens = all.max_kv_tokens,
                                         .scores = buffers_.scores,
                                         .selected = buffers_.selected,
                                         .selected_stride = SelectionWords(context_->buffers.max_context_tokens)};
  return context_->Run(&DeviceOps::store_index_keys, store, "index keys") &&
         (all.max_kv_tokens <= indexer.top_k || context_->Run(&DeviceOps::select_keys, select, "select keys"));
}

kernels::KeySelection Indexer::Selection() const {
  if (!config_.has_indexer() || context_->rows.spans.max_kv_tokens <= config_.indexer.top_k) return {};
  return {.bits = buffers_.selected,
          .stride = SelectionWords(context_->buffers.max_context_tokens),
          .rows = context_->rows.picked,
          .most = config_.indexer.top_k};
}

}  // namespace dunlin::engine
