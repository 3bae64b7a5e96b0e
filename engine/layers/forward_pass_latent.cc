// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention with the heads' key and value matrices absorbed: a page holds one latent row of a token,
// a head's query goes through its key matrix, and its sum of latent rows through its value matrix. Scores are those of
// the keys that the matrices would make: q (W c) = (q W) c. Source: DeepSeek-V2 report, section 2.1 and appendix C.
#include "engine/layers/forward_pass.h"

namespace dunlin::engine {
namespace {

// Of both norms, whatever rms_norm_eps says. Source: transformers 5.23, modeling_deepseek_v3.py, DeepseekV3Attention.
constexpr float kRankNormEpsilon = 1e-6F;

// Of each row `columns` floats.
kernels::CopyColumnsParams CopyOf(const float* in, int64_t in_stride, float* out, int64_t out_stride, int32_t columns,
                                  int32_t num_rows) {
  return {.in = in,
          .in_stride = in_stride,
          .in_block_stride = 0,
          .out = out,
          .out_stride = out_stride,
          .out_block_stride = 0,
          .num_rows = num_rows,
          .num_blocks = 1,
          .columns = columns};
}

}  // namespace

// From the norm's output in the activation to queries in the buffer qkv, each as wide as a latent row, and latent rows
// in their pages. A row of qkv ends with the token's latent row: first what rotates, then the rest.
bool ForwardPass::LatentQkvToPages(const LayerWeights& weights) {
  const LatentBuffers buffers = PlaceLatentBuffers(config_, buffers_.max_tokens, buffers_.latent);
  const Columns row{buffers_.qkv + int64_t{config_.num_heads} * config_.head_dim, config_.qkv_features()};
  const Columns latent{row.data + config_.latent.rope_dim, row.stride};
  return GemmTo("kv down", weights.latent.kv_down, row) && LatentQuery(weights, buffers) &&
         NormLatent(weights, buffers, latent) && AbsorbKeys(weights, buffers) &&
         Ran(ops_.rotate_and_store_kv(context_, HeadsOf(weights)), "rotate and store kv");
}

// The product shares its input with "kv down" unless it takes it in another format; then the norm runs again.
bool ForwardPass::LatentQuery(const LayerWeights& weights, const LatentBuffers& buffers) {
  const LatentAttention& latent = config_.latent;
  const bool has_rank = latent.query_rank > 0;
  const Target first{has_rank ? weights.latent.query_down : weights.latent.query, InputIndex(layer_, LayerInput::kQkv)};
  const bool shares = activation_.precision == first.linear.weight.precision &&
                      activation_.scale_block == first.linear.weight.scale_block;
  if (!shares && !Norm("attention norm", weights.attention_norm, &first, all_rows())) return false;
  const Columns query{buffers.query, config_.latent_query_features()};
  if (!has_rank) return GemmTo("query", weights.latent.query, query);
  const Columns down{buffers.down, latent.query_rank};
  return GemmTo("query down", weights.latent.query_down, down) &&
         NormRank("query norm", weights.latent.query_norm, down.data, latent.query_rank) &&
         RoundAndMultiply("query", weights.latent.query, down, query);
}

// Norms are over contiguous rows.
bool ForwardPass::NormLatent(const LayerWeights& weights, const LatentBuffers& buffers, const Columns& latent) {
  const int32_t rank = config_.latent.kv_rank;
  float* const down = buffers.down;
  return Ran(ops_.copy_columns(context_, CopyOf(latent.data, latent.stride, down, rank, rank, rows_.count)),
             "latent rows") &&
         NormRank("latent norm", weights.latent.kv_norm, down, rank) &&
         Ran(ops_.copy_columns(context_, CopyOf(down, rank, latent.data, latent.stride, rank, rows_.count)),
             "latent rows");
}

// Of each head's query the part that rotates, then the other one times the head's key matrix.
bool ForwardPass::AbsorbKeys(const LayerWeights& weights, const LatentBuffers& buffers) {
  const LatentAttention& latent = config_.latent;
  const int64_t per_head = latent.plain_dim + latent.rope_dim;
  const int64_t query_stride = config_.latent_query_features();
  const kernels::CopyColumnsParams rotated{.in = buffers.query + latent.plain_dim,
                                           .in_stride = query_stride,
                                           .in_block_stride = per_head,
                                           .out = buffers_.qkv,
                                           .out_stride = config_.qkv_features(),
                                           .out_block_stride = config_.head_dim,
                                           .num_rows = rows_.count,
                                           .num_blocks = config_.num_heads,
                                           .columns = latent.rope_dim};
  if (!Ran(ops_.copy_columns(context_, rotated), "rotated queries")) return false;
  for (int32_t head = 0; head < config_.num_heads; ++head) {
    const Columns in{buffers.query + head * per_head, query_stride};
    const Columns out{buffers_.qkv + int64_t{head} * config_.head_dim + latent.rope_dim, config_.qkv_features()};
    if (!RoundAndMultiply("key matrix", weights.latent.key_up[static_cast<size_t>(head)], in, out)) return false;
  }
  return true;
}

bool ForwardPass::LatentAttend(const LayerWeights& weights, const Target& next) {
  const LatentAttention& latent = config_.latent;
  const LatentBuffers buffers = PlaceLatentBuffers(config_, buffers_.max_tokens, buffers_.latent);
  kernels::PagedAttentionParams params = AttentionParamsOf(weights);
  params.out = buffers_.attention;
  if (!Ran(ops_.paged_attention(context_, params), "paged attention")) return false;
  for (int32_t head = 0; head < config_.num_heads; ++head) {
    const Columns in{params.out + int64_t{head} * latent.kv_rank, int64_t{config_.num_heads} * latent.kv_rank};
    const Columns out{buffers.values + int64_t{head} * latent.value_dim, config_.attention_features()};
    if (!RoundAndMultiply("value matrix", weights.latent.value_up[static_cast<size_t>(head)], in, out)) return false;
  }
  return Quantize("attention quantize", buffers.values, next, rows_.count);
}

bool ForwardPass::NormRank(const char* op, const NormWeights& weights, float* rows, int32_t columns) {
  kernels::NormParams params = NormParamsOf(weights, rows_.count);
  kernels::Activation width{.columns = columns};
  params.epsilon = kRankNormEpsilon;
  params.in = params.rows_out = rows;
  params.out = &width;
  return Ran(ops_.norm(context_, params), op);
}

// out = in W^T. The input is no LayerInput: models with experts, as all of these, take a scale per row in FP8.
bool ForwardPass::RoundAndMultiply(const char* op, const LinearWeights& linear, const Columns& in, const Columns& out) {
  const Target target{linear, InputIndex(layer_, LayerInput::kQkv)};
  const kernels::QuantizeParams params{
      .in = in.data, .in_stride = in.stride, .out = GemmInput(target), .num_rows = rows_.count};
  return Ran(ops_.quantize(context_, params), op) && GemmTo(op, linear, out);
}

}  // namespace dunlin::engine
