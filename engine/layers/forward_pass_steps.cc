// SPDX-License-Identifier: Apache-2.0
// The steps of a layer's modules. Each is one device operation when fused, several when eager.
#include "engine/layers/forward_pass.h"

namespace dunlin::engine {

// The QKV projection, with K and V written into pages: one operation where the device fuses them.
bool ForwardPass::QkvToPages(const LayerWeights& weights) {
  if (config_.has_latent_attention()) return LatentQkvToPages(weights);
  const kernels::RotateAndStoreKvParams heads = HeadsOf(weights);
  kernels::GemmParams params = GemmParamsOf(weights.qkv, rows_.count);
  params.bias = weights.qkv.bias;
  params.out = heads.qkv;
  params.heads = &heads;
  if (!eager() && ops_.gemm_fuses(context_, params)) return Ran(ops_.gemm(context_, params), "qkv");
  return Linear("qkv", weights.qkv, nullptr, heads.qkv, rows_.count) &&
         Ran(ops_.rotate_and_store_kv(context_, heads), "rotate and store kv");
}

kernels::RotateAndStoreKvParams ForwardPass::HeadsOf(const LayerWeights& weights) const {
  const KvPlace& place = kv_place();
  return {.qkv = buffers_.qkv,
          .cos_sin = CosSin(),
          .rotary_dim = config_.rotary_dim,
          .num_heads = config_.num_heads,
          .kv_pool = buffers_.kv_pool,
          .layout = layout_,
          .layer = place.layer_in_page,
          .token_page = inputs_.token_page + int64_t{place.group} * inputs_.num_tokens,
          .token_slot = inputs_.token_slot,
          .num_tokens = rows_.count,
          .query_norm = weights.query_norm.weight,
          .key_norm = weights.key_norm.weight,
          .norm_epsilon = config_.norm_epsilon,
          .joint_norms = config_.qk_norm_joint};
}

const float* ForwardPass::CosSin() const {
  const int32_t index = config_.rotary(layer_);
  return index < 0 ? nullptr : buffers_.rotary + int64_t{index} * rotary_tokens_ * config_.rotary_dim;
}

// Attention, with its output rounded to the GEMM input of `next`: one operation where the device fuses them.
bool ForwardPass::Attend(const LayerWeights& weights, const Target& next) {
  if (config_.has_latent_attention()) return LatentAttend(weights, next);
  kernels::PagedAttentionParams params = AttentionParamsOf(weights);
  params.next = GemmInput(next);
  if (!eager() && ops_.attention_fuses(context_, params)) {
    return Ran(ops_.paged_attention(context_, params), "paged attention");
  }
  params.next = nullptr;
  params.out = buffers_.attention;
  return Ran(ops_.paged_attention(context_, params), "paged attention") &&
         Quantize("attention quantize", params.out, next, rows_.count);
}

kernels::PagedAttentionParams ForwardPass::AttentionParamsOf(const LayerWeights& weights) const {
  const KvPlace& place = kv_place();
  kernels::PagedAttentionParams params{};
  params.backend = profile_.attention_backend;
  params.query = rows_.query;
  params.query_stride = rows_.query_stride;
  params.kv_pool = buffers_.kv_pool;
  params.layout = layout_;
  params.layer = place.layer_in_page;
  params.num_heads = config_.num_heads;
  params.page_table = inputs_.page_table + int64_t{place.group} * inputs_.spans.count * inputs_.page_table_stride;
  params.page_table_stride = inputs_.page_table_stride;
  params.sequences = rows_.spans.first;
  params.num_sequences = rows_.spans.count;
  params.num_one_token_sequences = rows_.spans.num_one_token;
  params.max_query_tokens = rows_.spans.max_query_tokens;
  params.max_kv_tokens = rows_.spans.max_kv_tokens;
  params.scale = config_.attention_scale;
  params.window = config_.window(layer_);
  params.softcap = config_.attention_softcap;
  params.causal = config_.causal;
  params.alibi_slopes = config_.alibi_slopes.empty() ? nullptr : buffers_.position_constants;
  if (!config_.key_bias.empty()) {
    params.bias = {.data = buffers_.position_constants,
                   .head_stride = static_cast<int64_t>(config_.key_bias.size()) / config_.num_heads};
  }
  params.sinks = weights.sinks;
  params.workspace = buffers_.workspace;
  params.workspace_bytes = buffers_.workspace_bytes;
  return params;
}

bool ForwardPass::Norm(const char* op, const NormWeights& weights, const Target* next, const NormRows& rows) {
  kernels::NormParams params = NormParamsOf(weights, rows.count);
  params.in = rows.in;
  params.rows = rows.picked;
  if (post_norm()) params.rows_out = rows_.hidden;
  if (next != nullptr && !eager()) {
    params.out = GemmInput(*next);
    return Ran(ops_.norm(context_, params), op);
  }
  kernels::Activation width{.columns = config_.hidden_dim};
  params.out = &width;
  if (params.rows_out == nullptr) params.rows_out = buffers_.unfused;
  return Ran(ops_.norm(context_, params), op) && (next == nullptr || Quantize(op, params.rows_out, *next, rows.count));
}

bool ForwardPass::NormInPlace(const char* op, const NormWeights& weights) {
  kernels::NormParams params = NormParamsOf(weights, rows_.count);
  kernels::Activation width{.columns = config_.hidden_dim};
  params.in = params.rows_out = rows_.hidden;
  params.out = &width;
  return Ran(ops_.norm(context_, params), op);
}

// Without input and output.
kernels::NormParams ForwardPass::NormParamsOf(const NormWeights& weights, int32_t num_rows) const {
  kernels::NormParams params{};
  params.kind = config_.norm_kind;
  params.weight = weights.weight;
  params.bias = weights.bias;
  params.epsilon = config_.norm_epsilon;
  params.num_rows = num_rows;
  return params;
}

bool ForwardPass::Quantize(const char* op, const float* in, const Target& next, int32_t num_rows) {
  if (observer_ != nullptr && !Ran(observer_->OnInput(next.input, in, num_rows, next.columns()), "observation")) {
    return false;
  }
  const kernels::QuantizeParams params{
      .in = in, .in_stride = next.columns(), .out = GemmInput(next), .num_rows = num_rows};
  return Ran(ops_.quantize(context_, params), op);
}

bool ForwardPass::Activate(const Target& next) {
  kernels::ActivateParams params{};
  params.kind = config_.activation;
  params.gated = config_.gated_mlp;
  params.in = static_cast<const float*>(buffers_.mlp);
  params.num_rows = rows_.count;
  if (!eager()) {
    params.out = GemmInput(next);
    return Ran(ops_.activate(context_, params), "activate");
  }
  kernels::Activation width{.columns = next.columns()};
  params.out = &width;
  params.rows_out = buffers_.unfused;
  return Ran(ops_.activate(context_, params), "activate") &&
         Quantize("mlp quantize", params.rows_out, next, params.num_rows);
}

bool ForwardPass::AddToResidual(const char* op, const LinearWeights& linear, const NormWeights& post_norm) {
  float* hidden = rows_.hidden;
  if (!config_.has_post_norms()) return Linear(op, linear, hidden, hidden, rows_.count);
  float* term = buffers_.term;
  kernels::Activation width{.columns = config_.hidden_dim};
  kernels::NormParams norm = NormParamsOf(post_norm, rows_.count);
  norm.in = term;
  norm.out = &width;
  if (!Linear(op, linear, nullptr, term, rows_.count)) return false;
  if (!eager()) {
    norm.residual = norm.rows_out = hidden;
    return Ran(ops_.norm(context_, norm), "post norm");
  }
  norm.rows_out = term;
  kernels::AddParams add{};
  add.rows = hidden;
  add.residual = term;
  add.num_rows = rows_.count;
  add.columns = config_.hidden_dim;
  return Ran(ops_.norm(context_, norm), "post norm") && Ran(ops_.add(context_, add), "post norm residual");
}

bool ForwardPass::CapLogits(int32_t num_rows) {
  if (config_.logit_softcap == 0.0F) return true;
  const kernels::SoftcapParams params{
      .values = buffers_.logits, .cap = config_.logit_softcap, .num_rows = num_rows, .columns = config_.vocab_size};
  return Ran(ops_.softcap(context_, params), "logit softcap");
}

absl::StatusOr<const float*> ForwardPass::RunClassifier(int32_t num_rows) {
  const Target dense{weights_.classifier_dense, HeadInputIndex(config_)};
  const Target out{weights_.classifier_out, HeadInputIndex(config_)};
  const bool ran = Quantize("classifier input", rows_.hidden, dense, num_rows) &&
                   Linear("classifier dense", dense.linear, nullptr, rows_.hidden, num_rows) &&
                   ClassifierInput(out, num_rows) && Linear("classifier", out.linear, nullptr, buffers_.qkv, num_rows);
  if (!ran) return Failure();
  return buffers_.qkv;
}

bool ForwardPass::ClassifierInput(const Target& out, int32_t num_rows) {
  float* rows = rows_.hidden;
  if (!config_.classifier_norm) {  // tanh is the soft cap of 1
    const kernels::SoftcapParams tanh{.values = rows, .cap = 1.0F, .num_rows = num_rows, .columns = config_.hidden_dim};
    return Ran(ops_.softcap(context_, tanh), "classifier tanh") && Quantize("classifier tanh", rows, out, num_rows);
  }
  kernels::Activation width{.columns = config_.hidden_dim};
  const kernels::ActivateParams activate{.kind = config_.classifier_activation,
                                         .gated = false,
                                         .in = rows,
                                         .out = &width,
                                         .num_rows = num_rows,
                                         .rows_out = rows};
  return Ran(ops_.activate(context_, activate), "classifier activation") &&
         Norm("classifier norm", weights_.classifier_norm, &out, {rows, nullptr, num_rows});
}

bool ForwardPass::Linear(const char* op, const LinearWeights& linear, const float* residual, float* out,
                         int32_t num_rows) {
  if (!eager()) return Gemm(op, linear, linear.bias, residual, out, num_rows);
  float* product = residual == nullptr ? out : buffers_.unfused;
  kernels::AddParams add{};
  add.num_rows = num_rows;
  add.columns = static_cast<int32_t>(linear.weight.out_features);
  add.rows = product;
  add.bias = linear.bias;
  if (!Gemm(op, linear, nullptr, nullptr, product, num_rows)) return false;
  if (add.bias != nullptr && !Ran(ops_.add(context_, add), op)) return false;
  if (residual == nullptr) return true;
  add.rows = out;
  add.bias = nullptr;
  add.residual = product;
  return Ran(ops_.add(context_, add), op);
}

bool ForwardPass::Gemm(const char* op, const LinearWeights& linear, const float* bias, const float* residual,
                       float* out, int32_t num_rows) {
  kernels::GemmParams params = GemmParamsOf(linear, num_rows);
  params.bias = bias;
  params.residual = residual;
  params.out = out;
  return Ran(ops_.gemm(context_, params), op);
}

bool ForwardPass::GemmTo(const char* op, const LinearWeights& linear, const Columns& out) {
  kernels::GemmParams params = GemmParamsOf(linear, rows_.count);
  params.bias = linear.bias;
  params.out = out.data;
  params.out_stride = out.stride;
  return Ran(ops_.gemm(context_, params), op);
}

// Without bias, residual and output.
kernels::GemmParams ForwardPass::GemmParamsOf(const LinearWeights& linear, int32_t num_rows) const {
  kernels::GemmParams params{};
  params.in = &activation_;
  params.weight = &linear.weight;
  params.out_stride = linear.weight.out_features;
  params.num_rows = num_rows;
  // The head's rows give the next token, so they run as decode whatever phase their hidden rows ran in.
  params.decode_rows = layer_ < 0 ? num_rows : rows_.num_decode;
  params.deterministic = buffers_.deterministic;
  return params;
}

kernels::Activation ForwardPass::InputOf(const Target& next, void* data) const {
  kernels::Activation input = {.data = data,
                               .precision = next.linear.weight.precision,
                               .capacity_rows = buffers_.max_tokens,
                               .columns = next.columns(),
                               .scale_block = next.linear.weight.scale_block,
                               .amax_limit = weights_.input_amax_limit};
  if (scaling_ != nullptr) scaling_->Apply(next.input, &input);
  return input;
}

kernels::Activation* ForwardPass::GemmInput(const Target& next) {
  activation_ = InputOf(next, buffers_.activation);
  return &activation_;
}

}  // namespace dunlin::engine
