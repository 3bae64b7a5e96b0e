// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/indexer.h"

#include "engine/layers/attention.h"
#include "engine/layers/norm.h"
#include "engine/model/spec/rank_config.h"

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
  if (!NormedInput("index key", weights_.key, weights_.key_norm, 1, buffers_.keys)) return false;
  if (config_.indexer.by_blocks()) {
    return NormedInput("index query", weights_.query, weights_.query_norm, config_.indexer.num_heads, buffers_.queries);
  }
  const Linear weights(context_, weights_.weights, InputIndex(context_->layer, LayerInput::kQkv));
  return weights.Run("index weights", nullptr, buffers_.weights, context_->rows.count);
}

bool Indexer::NormedInput(const char* op, const LinearWeights& weights, const NormWeights& norm, int32_t heads,
                          float* out) const {
  const Linear product(context_, weights, InputIndex(context_->layer, LayerInput::kQkv));
  kernels::NormParams params = Norm(context_, norm).Params(context_->rows.count * heads);
  kernels::Activation width{.columns = config_.indexer.dim};
  params.kind = config_.indexer.by_blocks() ? kernels::NormKind::kRmsNorm : kernels::NormKind::kLayerNorm;
  if (!config_.indexer.by_blocks()) params.epsilon = kIndexNormEpsilon;
  params.in = params.rows_out = out;
  params.out = &width;
  return NormAgainFor(context_, layer_.attention_norm, product) &&
         product.Run(op, nullptr, out, context_->rows.count) && context_->Run(&DeviceOps::norm, params, op);
}

// As the heads' products: not seen by observers.
bool Indexer::Queries(const float* latent_rows) const {
  if (!chooses() || config_.indexer.by_blocks()) return true;
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
                                         .weights = indexer.by_blocks() ? nullptr : buffers_.weights,
                                         .num_heads = indexer.num_heads,
                                         .top_k = indexer.top_k,
                                         .blocks = indexer.blocks,
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
  const IndexerSpec& indexer = config_.indexer;
  if (!config_.selects(context_->layer)) return {};
  if (context_->rows.spans.max_kv_tokens <= indexer.top_k) return {.most = indexer.top_k};
  const int64_t words = SelectionWords(context_->buffers.max_context_tokens);
  kernels::KeySelection selection = {.bits = buffers_.selected,
                                     .stride = indexer.num_choices() * words,
                                     .rows = context_->rows.picked,
                                     .most = indexer.top_k};
  if (!indexer.by_blocks()) return selection;
  const ModelConfig& config = context_->config;
  const HeadShape whole = config.undivided().attention.heads(context_->layer);
  selection.bits += HeadsOf(whole, config.rank, config.num_ranks).kv.first * words;
  selection.head_stride = words;
  return selection;
}

}  // namespace dunlin::engine
