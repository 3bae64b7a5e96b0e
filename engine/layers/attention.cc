// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/attention.h"

#include <algorithm>

#include "engine/layers/joint_norms.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"
#include "engine/model/spec/rank_config.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

// The cosines and sines of the running layer's rotation, or null.
const float* CosSinOf(const LayerContext& context) {
  const RotarySpec& rotary = context.config.rotary;
  const int32_t index = rotary.index(context.layer);
  if (index < 0) return nullptr;
  return context.buffers.rotary + int64_t{rotary.dims_before(index)} * context.inputs.num_tokens;
}

}  // namespace

kernels::RotateAndStoreKvParams KvParamsOf(const LayerContext& context, const LayerWeights& weights) {
  const ModelConfig& config = context.config;
  const KvPlace& place = context.kv_place();
  const bool scales_queries = config.attention.scales_queries(config.rotary.index(context.layer) >= 0);
  return {.qkv = context.buffers.qkv,
          .cos_sin = CosSinOf(context),
          .rotary_dim = config.rotary.dim_of(std::max(config.rotary.index(context.layer), 0)),
          .num_heads = config.attention.heads(context.layer).num_heads,
          .kv_pool = context.buffers.kv_pool,
          .layout = context.kv_layout(),
          .layer = place.layer_in_page,
          .token_page = context.inputs.token_page + int64_t{place.group} * context.inputs.num_tokens,
          .token_slot = context.inputs.token_slot,
          .num_tokens = context.rows.count,
          .query_norm = weights.query_norm.weight,
          .key_norm = weights.key_norm.weight,
          .norm_epsilon = config.norm.epsilon,
          .joint_norms = config.attention.qk_norm_joint,
          .norms_after = config.attention.norms_after_rotation,
          .query_only = !config.attention.stores_kv(context.layer),
          .rows = context.rows.picked,
          .value_norm = config.attention.value_norm,
          .query_scale = {.positions = scales_queries ? context.inputs.positions : nullptr,
                          .beta = config.attention.query_scale_beta,
                          .period = config.attention.query_scale_period,
                          .offset = config.attention.query_scale_offset}};
}

kernels::PagedAttentionParams AttentionParamsOf(const LayerContext& context, const LayerWeights& weights) {
  const ModelConfig& config = context.config;
  const PassInputs& inputs = context.inputs;
  const LayerRows& rows = context.rows;
  const KvPlace& place = context.kv_place();
  kernels::PagedAttentionParams params{};
  params.backend = context.profile.attention_backend;
  params.query = rows.query;
  params.query_stride = rows.query_stride;
  params.kv_pool = context.buffers.kv_pool;
  params.num_pages = context.buffers.num_pages;
  params.layout = context.kv_layout();
  params.layer = place.layer_in_page;
  params.num_heads = config.attention.heads(context.layer).num_heads;
  params.page_table = inputs.page_table + int64_t{place.group} * inputs.spans.count * inputs.page_table_stride;
  const bool chunked = config.attention.chunk(context.layer) > 0;
  const QuerySpans& spans = chunked ? rows.chunk_spans : rows.spans;
  params.page_table_stride = chunked ? 1 : inputs.page_table_stride;
  params.sequences = spans.first;
  params.num_sequences = spans.count;
  params.num_one_token_sequences = spans.num_one_token;
  params.num_rows = rows.count;
  params.max_query_tokens = spans.max_query_tokens;
  params.max_kv_tokens = spans.max_kv_tokens;
  params.scale = config.attention.scale;
  params.window = chunked ? 0 : config.attention.window(context.layer);
  params.softcap = config.attention.softcap;
  params.causal = config.attention.causal;
  params.alibi_slopes = config.attention.alibi_slopes.empty() ? nullptr : context.buffers.position_constants;
  if (!config.attention.key_bias.empty()) {
    params.bias = {.data = context.buffers.position_constants,
                   .head_stride = static_cast<int64_t>(config.attention.key_bias.size()) / config.attention.num_heads};
  }
  params.sinks = weights.sinks;
  params.workspace = context.buffers.workspace;
  params.workspace_bytes = context.buffers.workspace_bytes;
  return params;
}

Linear Attention::InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer) {
  return {context, weights.qkv, InputIndex(layer, LayerInput::kQkv)};
}

bool Attention::StoreKv() const {
  return StoreHeads() && (!context_->config.attention.output_gate || ComputeGate()) && indexer_.Inputs() &&
         indexer_.Select();
}

bool Attention::ComputeGate() const {
  const Linear gate(context_, weights_.attention_gate, InputIndex(context_->layer, LayerInput::kQkv));
  return NormAgainFor(context_, weights_.attention_norm, gate) &&
         gate.Run("attention gate", nullptr, context_->buffers.gate, context_->rows.count);
}

bool Attention::ApplyGate(float* rows) const {
  const AttentionSpec& attention = context_->config.attention;
  const kernels::RowGateParams params{.values = rows,
                                      .gate = context_->buffers.gate,
                                      .rows = context_->rows.picked,
                                      .num_rows = context_->rows.count,
                                      .columns = attention.query_features(context_->layer),
                                      .width = attention.head_gate ? attention.heads(context_->layer).head_dim : 1};
  return context_->Run(&DeviceOps::row_gate, params, "output gate");
}

// One operation where the device fuses them.
bool Attention::StoreHeads() const {
  const Linear qkv = InputOf(context_, weights_, context_->layer);
  context_->rows.query = context_->buffers.qkv;
  context_->rows.query_stride = qkv.weight().out_features;
  kernels::RotateAndStoreKvParams heads = KvParamsOf(*context_, weights_);
  if (heads.joint_norms && context_->divided()) return StoreJointHeads(qkv, &heads);
  kernels::GemmParams params = qkv.Params(context_->rows.count);
  params.bias = qkv.bias();
  params.out = heads.qkv;
  params.heads = &heads;
  if (!qkv.IsAdapted() && context_->Fuses(params)) return context_->Run(&DeviceOps::gemm, params, "qkv");
  return qkv.Run("qkv", nullptr, heads.qkv, context_->rows.count) &&
         context_->Run(&DeviceOps::rotate_and_store_kv, heads, "rotate and store kv");
}

bool Attention::StoreJointHeads(const Linear& qkv, kernels::RotateAndStoreKvParams* heads) const {
  if (!qkv.Run("qkv", nullptr, heads->qkv, context_->rows.count) ||
      !NormJointly(context_, weights_, heads->qkv, qkv.weight().out_features)) {
    return false;
  }
  heads->query_norm = heads->key_norm = nullptr;
  heads->joint_norms = false;
  return context_->Run(&DeviceOps::rotate_and_store_kv, *heads, "rotate and store kv");
}

// One operation where the device rounds what it attends.
bool Attention::Run(const Linear& next) const {
  const kernels::Device& device = *context_->buffers.device;
  kernels::PagedAttentionParams params = AttentionParamsOf(*context_, weights_);
  params.next = next.Input(context_->rows.count);
  params.selection = indexer_.Selection();
  const bool gated = context_->config.attention.output_gate;
  const bool fuses = !gated && !next.IsAdapted() && !context_->eager() && !context_->divided();
  if (fuses && device.ops->attention_fuses(device.context, params)) {
    return context_->Run(&DeviceOps::paged_attention, params, "paged attention");
  }
  params.next = nullptr;
  params.out = context_->buffers.attention;
  return context_->Run(&DeviceOps::paged_attention, params, "paged attention") && (!gated || ApplyGate(params.out)) &&
         Quantize(next, params.out);
}

bool Attention::Quantize(const Linear& next, const float* heads) const {
  const ModelConfig& config = context_->config;
  const HeadShape whole = config.undivided().attention.heads(context_->layer);
  const RankPart part = HeadsOf(whole, config.rank, config.num_ranks).query;
  const RankPart columns{part.first * whole.head_dim, part.count * whole.head_dim};
  return QuantizeColumns(context_, "attention quantize", next, ColumnsOf(heads, columns), context_->rows.count);
}

}  // namespace dunlin::engine
