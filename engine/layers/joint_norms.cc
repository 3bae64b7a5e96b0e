// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/joint_norms.h"

#include "engine/layers/rank_rows.h"
#include "engine/model/spec/rank_config.h"

namespace dunlin::engine {
namespace {

using kernels::DeviceOps;

constexpr char kOp[] = "norm of all heads";

// Columns of the rank's rows that are some of all ranks'.
struct HeadColumns {
  float* own;  // rows `stride` floats apart
  float* gathered;
  int64_t offset;       // in it, of all columns: [rows, columns]
  const float* weight;  // [columns]
  int32_t columns;
  int32_t first;
  int32_t count;
  bool fills;  // of ranks that have the same heads one gives them

  float* all() const { return gathered + offset; }
};

bool Give(LayerContext* context, const HeadColumns& heads, int64_t stride) {
  const RankColumns own{
      .data = heads.own, .stride = stride, .first = heads.first, .count = heads.fills ? heads.count : 0};
  return GiveColumns(context, kOp, own, heads.gathered, heads.offset, heads.columns, context->rows.count);
}

bool Take(LayerContext* context, const HeadColumns& heads, int64_t stride) {
  const kernels::CopyColumnsParams params{.in = heads.all() + heads.first,
                                          .in_stride = heads.columns,
                                          .in_block_stride = heads.count,
                                          .out = heads.own,
                                          .out_stride = stride,
                                          .out_block_stride = heads.count,
                                          .num_rows = context->rows.count,
                                          .num_blocks = 1,
                                          .columns = heads.count};
  return context->Run(&DeviceOps::copy_columns, params, kOp);
}

// The rank's share of the rows.
bool Normalize(LayerContext* context, const HeadColumns& heads) {
  const RankPart rows = OwnRows(*context, context->rows.count);
  kernels::Activation width{.columns = heads.columns};
  kernels::NormParams params{};
  params.kind = kernels::NormKind::kRmsNorm;
  params.in = params.rows_out = heads.all() + int64_t{rows.first} * heads.columns;
  params.weight = heads.weight;
  params.epsilon = context->config.norm.epsilon;
  params.out = &width;
  params.num_rows = rows.count;
  return context->Run(&DeviceOps::norm, params, kOp);
}

}  // namespace

bool NormJointly(LayerContext* context, const LayerWeights& weights, float* qkv, int64_t stride) {
  const ModelConfig& config = context->config;
  const HeadShape whole = config.undivided().attention.heads(context->layer);
  const auto heads_of = [&](int32_t rank) { return HeadsOf(whole, rank, config.num_ranks); };
  const auto [query, kv] = heads_of(config.rank);
  const bool first_of_kv = config.rank == 0 || heads_of(config.rank - 1).kv.first != kv.first;
  const int32_t dim = whole.head_dim;
  float* const gathered = NextGathered(context);
  const HeadColumns queries{.own = qkv,
                            .gathered = gathered,
                            .offset = 0,
                            .weight = weights.query_norm.weight,
                            .columns = whole.num_heads * dim,
                            .first = query.first * dim,
                            .count = query.count * dim,
                            .fills = true};
  const HeadColumns keys{.own = qkv + int64_t{query.count} * dim,
                         .gathered = gathered,
                         .offset = int64_t{context->rows.count} * queries.columns,
                         .weight = weights.key_norm.weight,
                         .columns = whole.num_kv_heads * dim,
                         .first = kv.first * dim,
                         .count = kv.count * dim,
                         .fills = first_of_kv};
  const bool has_keys = config.attention.stores_kv(context->layer);
  return Give(context, queries, stride) && (!has_keys || Give(context, keys, stride)) && MeetOverRows(context, kOp) &&
         Normalize(context, queries) && (!has_keys || Normalize(context, keys)) && MeetOverRows(context, kOp) &&
         Take(context, queries, stride) && (!has_keys || Take(context, keys, stride));
}

}  // namespace dunlin::engine
