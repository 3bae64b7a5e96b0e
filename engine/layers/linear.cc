// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/linear.h"

#include <algorithm>
#include <span>

#include "engine/layers/adapter_rows.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

namespace {

// Where a layer has the weights of a projection.
struct ProjectionRow {
  Projection projection;
  const LinearWeights* (*of)(const LayerWeights&);  // of experts the first one's
};

const LinearWeights* FirstOf(const std::vector<LinearWeights>& experts) {
  return experts.empty() ? nullptr : experts.data();
}

constexpr ProjectionRow kProjections[] = {
    {Projection::kQkv, [](const LayerWeights& w) -> const LinearWeights* { return &w.qkv; }},
    {Projection::kAttentionGate, [](const LayerWeights& w) -> const LinearWeights* { return &w.attention_gate; }},
    {Projection::kAttentionOut, [](const LayerWeights& w) -> const LinearWeights* { return &w.attention_out; }},
    {Projection::kMlpUp, [](const LayerWeights& w) -> const LinearWeights* { return &w.mlp_up; }},
    {Projection::kMlpDown, [](const LayerWeights& w) -> const LinearWeights* { return &w.mlp_down; }},
    {Projection::kMixerIn, [](const LayerWeights& w) -> const LinearWeights* { return &w.delta.in; }},
    {Projection::kMixerIn, [](const LayerWeights& w) -> const LinearWeights* { return &w.short_conv.in; }},
    {Projection::kMixerIn, [](const LayerWeights& w) -> const LinearWeights* { return &w.mamba.in; }},
    {Projection::kMixerGates, [](const LayerWeights& w) -> const LinearWeights* { return &w.delta.gates; }},
    {Projection::kMixerOut, [](const LayerWeights& w) -> const LinearWeights* { return &w.delta.out; }},
    {Projection::kMixerOut, [](const LayerWeights& w) -> const LinearWeights* { return &w.short_conv.out; }},
    {Projection::kMixerOut, [](const LayerWeights& w) -> const LinearWeights* { return &w.mamba.out; }},
    {Projection::kQueryDown, [](const LayerWeights& w) -> const LinearWeights* { return &w.latent.query_down; }},
    {Projection::kLatentQuery, [](const LayerWeights& w) -> const LinearWeights* { return &w.latent.query; }},
    {Projection::kKvDown, [](const LayerWeights& w) -> const LinearWeights* { return &w.latent.kv_down; }},
    {Projection::kRouter, [](const LayerWeights& w) -> const LinearWeights* { return &w.router; }},
    {Projection::kLatentIn, [](const LayerWeights& w) -> const LinearWeights* { return &w.latent_in; }},
    {Projection::kLatentOut, [](const LayerWeights& w) -> const LinearWeights* { return &w.latent_out; }},
    {Projection::kExpertUp, [](const LayerWeights& w) { return FirstOf(w.experts.up); }},
    {Projection::kExpertDown, [](const LayerWeights& w) { return FirstOf(w.experts.down); }},
    {Projection::kSharedUp, [](const LayerWeights& w) -> const LinearWeights* { return &w.shared_expert.up; }},
    {Projection::kSharedDown, [](const LayerWeights& w) -> const LinearWeights* { return &w.shared_expert.down; }},
};

// Of a layer, or with -1 of the model.
std::optional<Projection> ProjectionOf(const PrecisionWeights& weights, int32_t layer, const LinearWeights* linear) {
  if (layer < 0) return linear == &weights.head ? std::optional(Projection::kHead) : std::nullopt;
  const LayerWeights& own = weights.layers[static_cast<size_t>(layer)];
  const auto* found = std::ranges::find_if(kProjections, [&](const auto& row) { return linear == row.of(own); });
  return found == std::end(kProjections) ? std::nullopt : std::optional(found->projection);
}

}  // namespace

bool Linear::SharesInputFormat(const kernels::Activation& other) const {
  return other.precision == weight().precision && other.scale_block == weight().scale_block;
}

kernels::Activation Linear::InputIn(void* data, int32_t num_rows) const {
  kernels::Activation input = {.data = data,
                               .precision = weight().precision,
                               .capacity_rows = std::max(num_rows, context_->buffers.max_tokens),
                               .columns = columns(),
                               .scale_block = weight().scale_block,
                               .amax_limit = context_->weights.input_amax_limit};
  if (context_->scaling != nullptr) context_->scaling->Apply(input_, &input);
  return input;
}

std::optional<Projection> Linear::adapted() const {
  const AdapterRows* adapters = context_->inputs.adapters;
  if (adapters == nullptr) return std::nullopt;
  const std::optional<Projection> projection = ProjectionOf(context_->weights, context_->layer, weights_);
  if (!projection.has_value()) return std::nullopt;
  const int32_t index = std::max(context_->layer, 0);
  const bool adapted = std::ranges::any_of(adapters->all, [&](const AdapterRows::Use& use) {
    return !use.adapter->pairs(*projection, index, context_->config.rank).empty();
  });
  return adapted ? projection : std::nullopt;
}

bool Linear::IsAdapted() const {
  return adapted().has_value();
}

float* Linear::KeepInput() const {
  if (!IsAdapted()) return nullptr;
  context_->input_rows = context_->buffers.adapter_input;
  return context_->buffers.adapter_input;
}

bool Linear::AddAdapters(const Columns& out) const {
  const std::optional<Projection> projection = context_->layer < 0 ? std::nullopt : adapted();
  if (!projection.has_value()) return true;
  const AdapterRows& adapters = *context_->inputs.adapters;
  int32_t num_uses = 0;
  for (const auto& [adapter, rows, num_rows] : context_->rows.picked != nullptr ? adapters.kept : adapters.all) {
    const std::span pairs = adapter->pairs(*projection, context_->layer, context_->config.rank);
    if (pairs.empty()) continue;
    adapters.list[num_uses++] = {
        .pairs = pairs.data(), .num_pairs = static_cast<int32_t>(pairs.size()), .rows = rows, .num_rows = num_rows};
  }
  return RunAdapters(num_uses, out);
}

bool Linear::AddHeadAdapters(int32_t first, int32_t count, const Columns& out) const {
  if (!IsAdapted()) return true;
  const AdapterRows& adapters = *context_->inputs.adapters;
  int32_t num_uses = 0;
  int32_t* rows = adapters.head_rows;
  for (const AdapterRows::Use& use : adapters.kept) {
    const std::span pairs = use.adapter->pairs(Projection::kHead, 0, context_->config.rank);
    int32_t* const end = std::transform(std::lower_bound(use.rows, use.rows + use.num_rows, first),
                                        std::lower_bound(use.rows, use.rows + use.num_rows, first + count), rows,
                                        [first](int32_t row) { return row - first; });
    if (pairs.empty() || end == rows) continue;
    adapters.list[num_uses++] = {.pairs = pairs.data(),
                                 .num_pairs = static_cast<int32_t>(pairs.size()),
                                 .rows = rows,
                                 .num_rows = static_cast<int32_t>(end - rows)};
    rows = end;
  }
  return RunAdapters(num_uses, out);
}

bool Linear::RunAdapters(int32_t num_uses, const Columns& out) const {
  if (num_uses == 0) return true;
  const kernels::AddLowRankParams params{.in = context_->input_rows,
                                         .in_stride = columns(),
                                         .in_features = columns(),
                                         .uses = context_->inputs.adapters->list,
                                         .num_uses = num_uses,
                                         .out = out.data,
                                         .out_stride = out.stride,
                                         .scratch = context_->buffers.adapter_hidden};
  return context_->Run(&DeviceOps::add_low_rank, params, "adapters");
}

kernels::Activation* Linear::Input(int32_t num_rows) const {
  context_->activation = InputIn(context_->buffers.activation, num_rows);
  return &context_->activation;
}

bool Linear::Quantize(const char* op, const float* in, int32_t num_rows) const {
  InputObserver* observer = input_ == kUnobservedInput ? nullptr : context_->observer;
  if (observer != nullptr && !context_->Check(observer->OnInput(input_, in, num_rows, columns()), "observation")) {
    return false;
  }
  context_->input_rows = in;
  const kernels::QuantizeParams params{.in = in, .in_stride = columns(), .out = Input(num_rows), .num_rows = num_rows};
  return context_->Run(&DeviceOps::quantize, params, op);
}

bool Linear::Run(const char* op, const float* residual, float* out, int32_t num_rows) const {
  const bool ran =
      context_->eager() ? RunUnfused(op, residual, out, num_rows) : Gemm(op, bias(), residual, out, num_rows);
  return ran && AddAdapters({out, weight().out_features});
}

bool Linear::RunUnfused(const char* op, const float* residual, float* out, int32_t num_rows) const {
  float* product = residual == nullptr ? out : context_->buffers.unfused;
  kernels::AddParams add{};
  add.num_rows = num_rows;
  add.columns = static_cast<int32_t>(weight().out_features);
  add.rows = product;
  add.bias = bias();
  if (!Gemm(op, nullptr, nullptr, product, num_rows)) return false;
  if (add.bias != nullptr && !context_->Run(&DeviceOps::add, add, op)) return false;
  if (residual == nullptr) return true;
  add.rows = out;
  add.bias = nullptr;
  add.residual = product;
  return context_->Run(&DeviceOps::add, add, op);
}

bool Linear::Run(const char* op, const Columns& out) const {
  kernels::GemmParams params = Params(context_->rows.count);
  params.bias = bias();
  params.out = out.data;
  params.out_stride = out.stride;
  return context_->Run(&DeviceOps::gemm, params, op) && AddAdapters(out);
}

bool Linear::AddToResidual(const char* op, const NormWeights& post_norm, const float* factor) const {
  const LayerRows& rows = context_->rows;
  if (context_->divided()) return AddColumns(op, post_norm, factor);
  if (!context_->config.norm.has_post(context_->layer)) return Run(op, rows.hidden, rows.hidden, rows.count);
  float* term = context_->buffers.term;
  return Run(op, nullptr, term, rows.count) && Norm(context_, post_norm).AddToResidual("post norm", term, factor);
}

bool Linear::AddColumns(const char* op, const NormWeights& post_norm, const float* factor) const {
  const bool has_post = context_->config.norm.has_post(context_->layer);
  float* sum = has_post ? context_->buffers.term : context_->rows.hidden;
  const Columns own = OwnColumns(*context_, sum);
  const RankPart part = context_->config.part(context_->config.hidden_dim);
  return (context_->eager() ? AddUnfused(op, has_post, own) : AddFused(op, has_post, own)) && AddAdapters(own) &&
         ShareColumns(context_, op, sum, context_->config.hidden_dim, part, context_->rows.count) &&
         (!has_post || Norm(context_, post_norm).AddToResidual("post norm", sum, factor));
}

bool Linear::AddFused(const char* op, bool from_zero, const Columns& own) const {
  kernels::GemmParams params = Params(context_->rows.count);
  params.bias = bias();
  params.residual = from_zero ? nullptr : own.data;
  params.out = own.data;
  params.out_stride = own.stride;
  return context_->Run(&DeviceOps::gemm, params, op);
}

// Operations on contiguous rows, so that the columns are copied.
bool Linear::AddUnfused(const char* op, bool from_zero, const Columns& own) const {
  const Columns apart{context_->buffers.rank_sum, weight().out_features};
  return (from_zero || CopyOwnColumns(context_, op, own, apart)) &&
         RunUnfused(op, from_zero ? nullptr : apart.data, apart.data, context_->rows.count) &&
         CopyOwnColumns(context_, op, apart, own);
}

bool Linear::Gemm(const char* op, const float* bias, const float* residual, float* out, int32_t num_rows) const {
  kernels::GemmParams params = Params(num_rows);
  params.bias = bias;
  params.residual = residual;
  params.out = out;
  return context_->Run(&DeviceOps::gemm, params, op);
}

kernels::GemmParams Linear::Params(int32_t num_rows) const {
  kernels::GemmParams params{};
  params.in = &context_->activation;
  params.weight = &weight();
  params.out_stride = weight().out_features;
  params.num_rows = num_rows;
  // A decoder's head gives the next token, so its rows run as decode whatever phase their hidden rows ran in.
  const bool decodes = context_->layer < 0 && !context_->config.is_image_encoder();
  params.decode_rows = decodes ? num_rows : context_->rows.num_decode;
  params.deterministic = context_->buffers.deterministic;
  return params;
}

}  // namespace dunlin::engine
