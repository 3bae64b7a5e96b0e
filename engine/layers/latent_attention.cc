// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/latent_attention.h"

#include <algorithm>

#include "engine/layers/attention.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"
#include "engine/model/spec/rank_config.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

// Of both norms, whatever rms_norm_eps says. Source: transformers 5.23, modeling_deepseek_v3.py, DeepseekV3Attention.
constexpr float kRankNormEpsilon = 1e-6F;

// Of each row `columns` floats.
kernels::CopyColumnsParams CopyOf(const Columns& in, const Columns& out, int32_t columns, int32_t num_rows) {
  return {.in = in.data,
          .in_stride = in.stride,
          .in_block_stride = 0,
          .out = out.data,
          .out_stride = out.stride,
          .out_block_stride = 0,
          .num_rows = num_rows,
          .num_blocks = 1,
          .columns = columns};
}

}  // namespace

LatentAttentionLayer::LatentAttentionLayer(LayerContext* context, const LayerWeights& weights)
    : context_(context),
      layer_(weights),
      weights_(weights.latent),
      shape_(context->config.attention.latent),
      buffers_(PlaceLatentBuffers(context->config, context->buffers.max_tokens, context->buffers.latent)),
      indexer_(context, weights) {}

Linear LatentAttentionLayer::InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer) {
  return {context, weights.latent.kv_down, InputIndex(layer, LayerInput::kQkv)};
}

bool LatentAttentionLayer::StoreKv() const {
  const ModelConfig& config = context_->config;
  const Columns row{context_->buffers.qkv + int64_t{config.attention.num_heads} * config.attention.head_dim,
                    config.attention.qkv_features()};
  const Columns latent{row.data + shape_.rope_dim, row.stride};
  return InputOf(context_, layer_, context_->layer).Run("kv down", row) && ComputeGate() && indexer_.Inputs() &&
         Query() && NormLatent(latent) && AbsorbKeys() &&
         context_->Run(&DeviceOps::rotate_and_store_kv, KvParamsOf(*context_, layer_), "rotate and store kv") &&
         indexer_.Select();
}

bool LatentAttentionLayer::ComputeGate() const {
  if (!context_->config.attention.output_gate) return true;
  const Linear gate(context_, layer_.attention_gate, InputIndex(context_->layer, LayerInput::kQkv));
  return NormAgainFor(context_, layer_.attention_norm, gate) &&
         gate.Run("attention gate", nullptr, context_->buffers.gate, context_->rows.count);
}

bool LatentAttentionLayer::ApplyGate() const {
  const AttentionSpec& attention = context_->config.attention;
  if (!attention.output_gate) return true;
  const kernels::RowGateParams params{.values = buffers_.values,
                                      .gate = context_->buffers.gate,
                                      .rows = context_->rows.picked,
                                      .num_rows = context_->rows.count,
                                      .columns = attention.output_features(),
                                      .width = shape_.value_dim};
  return context_->Run(&DeviceOps::row_gate, params, "output gate");
}

// The product shares its input with "kv down" unless it takes it in another format; then the norm runs again.
bool LatentAttentionLayer::Query() const {
  const int32_t input = InputIndex(context_->layer, LayerInput::kQkv);
  const bool has_rank = shape_.query_rank > 0;
  const Linear query(context_, weights_.query, input);
  const Linear first = has_rank ? Linear(context_, weights_.query_down, input) : query;
  if (!NormAgainFor(context_, layer_.attention_norm, first)) return false;
  const Columns out{buffers_.query, context_->config.attention.latent_query_features()};
  if (!has_rank) return query.Run("query", out);
  return first.Run("query down", Columns{buffers_.down, shape_.query_rank}) &&
         NormRank("query norm", weights_.query_norm, buffers_.down, shape_.query_rank) &&
         indexer_.Queries(buffers_.down) && RoundQuery(query) && query.Run("query", out);
}

// As the heads' products: not seen by observers.
bool LatentAttentionLayer::RoundQuery(const Linear& query) const {
  const int32_t count = context_->rows.count;
  context_->input_rows = buffers_.down;
  const kernels::QuantizeParams params{
      .in = buffers_.down, .in_stride = shape_.query_rank, .out = query.Input(count), .num_rows = count};
  return context_->Run(&DeviceOps::quantize, params, "query");
}

// Norms are over contiguous rows.
bool LatentAttentionLayer::NormLatent(const Columns& latent) const {
  const int32_t rank = shape_.kv_rank;
  const int32_t count = context_->rows.count;
  const Columns down{buffers_.down, rank};
  return context_->Run(&DeviceOps::copy_columns, CopyOf(latent, down, rank, count), "latent rows") &&
         NormRank("latent norm", weights_.kv_norm, buffers_.down, rank) &&
         context_->Run(&DeviceOps::copy_columns, CopyOf(down, latent, rank, count), "latent rows");
}

// Of each head's query the part that rotates, then the other one times the head's key matrix.
bool LatentAttentionLayer::AbsorbKeys() const {
  const ModelConfig& config = context_->config;
  const int64_t per_head = shape_.plain_dim + shape_.rope_dim;
  const Columns queries{buffers_.query, config.attention.latent_query_features()};
  const Columns heads{context_->buffers.qkv, config.attention.qkv_features()};
  const kernels::CopyColumnsParams rotated{.in = queries.data + shape_.plain_dim,
                                           .in_stride = queries.stride,
                                           .in_block_stride = per_head,
                                           .out = heads.data,
                                           .out_stride = heads.stride,
                                           .out_block_stride = config.attention.head_dim,
                                           .num_rows = context_->rows.count,
                                           .num_blocks = config.attention.num_heads,
                                           .columns = shape_.rope_dim};
  return context_->Run(&DeviceOps::copy_columns, rotated, "rotated queries") &&
         HeadProducts("key matrix", weights_.key_up, queries, per_head,
                      Columns{heads.data + shape_.rope_dim, heads.stride}, config.attention.head_dim);
}

bool LatentAttentionLayer::Run(const Linear& next) const {
  const ModelConfig& config = context_->config;
  kernels::PagedAttentionParams params = AttentionParamsOf(*context_, layer_);
  params.out = context_->buffers.attention;
  params.selection = indexer_.Selection();
  const Columns sums{params.out, int64_t{config.attention.num_heads} * shape_.kv_rank};
  const Columns values{buffers_.values, config.attention.output_features()};
  return context_->Run(&DeviceOps::paged_attention, params, "paged attention") &&
         HeadProducts("value matrix", weights_.value_up, sums, shape_.kv_rank, values, shape_.value_dim) &&
         ApplyGate() &&
         QuantizeColumns(context_, "attention quantize", next, ColumnsOf(buffers_.values, OwnValues()),
                         context_->rows.count);
}

RankPart LatentAttentionLayer::OwnValues() const {
  const ModelConfig& config = context_->config;
  const HeadShape whole = config.undivided().attention.heads(context_->layer);
  const RankPart heads = HeadsOf(whole, config.rank, config.num_ranks).query;
  return {heads.first * shape_.value_dim, heads.count * shape_.value_dim};
}

bool LatentAttentionLayer::NormRank(const char* op, const NormWeights& weights, float* rows, int32_t columns) const {
  kernels::NormParams params = Norm(context_, weights).Params(context_->rows.count);
  kernels::Activation width{.columns = columns};
  params.epsilon = kRankNormEpsilon;
  params.in = params.rows_out = rows;
  params.out = &width;
  return context_->Run(&DeviceOps::norm, params, op);
}

// The inputs are no LayerInput: models with latent attention take a scale per row in FP8. The buffer activation holds
// rounded rows of as many heads as it has room for.
bool LatentAttentionLayer::HeadProducts(const char* op, const std::vector<LinearWeights>& weights, const Columns& in,
                                        int64_t in_head_stride, const Columns& out, int64_t out_head_stride) const {
  const LayerBuffers& buffers = context_->buffers;
  const Linear first(context_, weights.front(), InputIndex(context_->layer, LayerInput::kQkv));
  const size_t head_bytes =
      buffers.device->ops->activation_bytes(first.weight().precision, buffers.max_tokens, first.columns());
  const auto heads = static_cast<int32_t>(std::min(weights.size(), buffers.activation_bytes / head_bytes));
  const kernels::Activation rounded = first.InputIn(buffers.activation, heads * buffers.max_tokens);
  const kernels::BatchedGemmParams params{.in = in.data,
                                          .in_stride = in.stride,
                                          .in_batch_stride = in_head_stride,
                                          .rounded = &rounded,
                                          .weights = weights.data(),
                                          .num_batches = static_cast<int32_t>(weights.size()),
                                          .out = out.data,
                                          .out_stride = out.stride,
                                          .out_batch_stride = out_head_stride,
                                          .num_rows = context_->rows.count};
  return context_->Run(&DeviceOps::batched_gemm, params, op);
}

}  // namespace dunlin::engine
