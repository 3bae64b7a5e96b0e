// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/experts.h"

#include "engine/layers/adapter_rows.h"
#include "engine/layers/expert_adapters.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

Experts::Experts(LayerContext* context, const LayerWeights& weights)
    : context_(context),
      weights_(weights),
      buffers_(PlaceExpertBuffers(context->config, context->buffers.max_tokens, context->buffers.experts)),
      read_rows_(context->config.experts.latent_dim > 0  ? buffers_.latent
                 : context->config.experts.scaled_inputs ? buffers_.scaled
                                                         : buffers_.normed) {}

bool Experts::Begin() {
  return Norm(context_, weights_.mlp_norm).Run("mlp norm", buffers_.normed) && Route();
}

bool Experts::Run() {
  const ModelConfig& config = context_->config;
  if (context_->divided()) return RunDivided();
  const bool latent = config.experts.latent_dim > 0;
  const bool post_norm = config.norm.has_post(context_->layer);
  float* sum = post_norm ? context_->buffers.term : context_->rows.hidden;
  const bool alone = latent || post_norm || config.has_streams();  // the term is not added to what is in hidden
  return (!latent || EnterLatent()) && RunExperts(latent ? buffers_.latent : sum, alone) &&
         (!latent || LeaveLatent(sum)) && (config.experts.shared_ffn_dim == 0 || RunShared(sum)) &&
         (!post_norm ||
          Norm(context_, weights_.post_mlp_norm).AddToResidual("post norm", sum, FactorAfterMlp(*context_, weights_)));
}

bool Experts::RunDivided() {
  static constexpr char kCopy[] = "columns of the experts";
  const ModelConfig& config = context_->config;
  const bool latent = config.experts.latent_dim > 0;
  const bool post_norm = config.norm.has_post(context_->layer);
  float* sum = post_norm ? context_->buffers.term : context_->rows.hidden;
  const Columns own = OwnColumns(*context_, sum);
  const Columns apart{context_->buffers.rank_sum, config.part(config.hidden_dim).count};
  return (post_norm || CopyOwnColumns(context_, kCopy, own, apart)) && (!latent || EnterLatent()) &&
         RunExperts(latent ? buffers_.latent : apart.data, latent || post_norm) &&
         (!latent || LeaveLatent(apart.data)) &&
         (context_->config.experts.shared_ffn_dim == 0 || RunShared(apart.data)) &&
         CopyOwnColumns(context_, kCopy, apart, own) &&
         ShareColumns(context_, "sum of the experts", sum, config.hidden_dim, config.part(config.hidden_dim),
                      context_->rows.count) &&
         (!post_norm ||
          Norm(context_, weights_.post_mlp_norm).AddToResidual("post norm", sum, FactorAfterMlp(*context_, weights_)));
}

int32_t Experts::sum_columns() const {
  return context_->config.part(context_->config.expert_dim()).count;
}

bool Experts::SumApart(const NormWeights& router_norm, const NormWeights& experts_norm) const {
  return Norm(context_, router_norm).Run("router norm", buffers_.normed) && Route() &&
         Norm(context_, experts_norm).Run("experts norm", buffers_.normed) && RunExperts(buffers_.normed, true);
}

bool Experts::Route() const {
  const LayerRows& rows = context_->rows;
  const Linear router(context_, weights_.router, InputIndex(context_->layer, LayerInput::kMlpUp));
  const kernels::RouteExpertsParams params{.rule = context_->config.experts.routing,
                                           .logits = buffers_.logits,
                                           .logits_stride = context_->config.experts.router_features(),
                                           .correction = weights_.router_correction,
                                           .num_rows = rows.count,
                                           .decode_rows = rows.num_decode,
                                           .chosen = buffers_.chosen,
                                           .chosen_weights = buffers_.chosen_weights,
                                           .experts = buffers_.experts,
                                           .rows = buffers_.rows,
                                           .weights = buffers_.weights,
                                           .places = buffers_.places,
                                           .expert_scales = weights_.expert_scales,
                                           .token_experts = weights_.token_experts,
                                           .tokens = context_->inputs.token_ids};
  return router.Quantize("router input", buffers_.normed, rows.count) &&
         router.Run("router", nullptr, buffers_.logits, rows.count) &&
         context_->Run(&DeviceOps::route_experts, params, "routing");
}

bool Experts::EnterLatent() {
  const int32_t count = context_->rows.count;
  const Linear in(context_, weights_.latent_in, InputIndex(context_->layer, LayerInput::kMlpUp));
  const bool ran =
      in.Quantize("latent input", buffers_.normed, count) && in.Run("latent in", nullptr, buffers_.latent, count);
  if (!ran || !context_->divided()) return ran;
  const int32_t columns = context_->config.expert_dim();
  read_rows_ =
      GatherColumns(context_, "latent in", ColumnsOf(buffers_.latent, context_->config.part(columns)), columns, count);
  return read_rows_ != nullptr;
}

bool Experts::LeaveLatent(float* sum) const {
  const int32_t count = context_->rows.count;
  const Linear out(context_, weights_.latent_out, InputIndex(context_->layer, LayerInput::kMlpDown));
  const RankPart own = context_->config.part(out.columns());
  return QuantizeColumns(context_, "latent sum", out, ColumnsOf(buffers_.latent, own), count) &&
         out.Run("latent out", sum, sum, count);
}

bool Experts::RunExperts(float* out, bool from_zero) const {
  const Linear up(context_, weights_.experts.up.front(), InputIndex(context_->layer, LayerInput::kMlpUp));
  const Linear down(context_, weights_.experts.down.front(), InputIndex(context_->layer, LayerInput::kMlpDown));
  const bool scaled_inputs = context_->config.experts.scaled_inputs;
  const kernels::AddWeightedRowsParams add{.in = buffers_.output,
                                           .places = buffers_.places,
                                           .num_places = context_->config.experts.routing.num_chosen,
                                           .weights = scaled_inputs ? nullptr : buffers_.weights,
                                           .weight_stride = 1,
                                           .sigmoid = false,
                                           .out = out,
                                           .num_rows = context_->rows.count,
                                           .columns = sum_columns(),
                                           .from_zero = from_zero};
  if (IsAdapted(up, down) && !context_->inputs.adapters->experts->Collect(context_, buffers_)) return false;
  if ((scaled_inputs && !ScaleInputs()) || !Gather(up) || !RunUp(up, down)) return false;
  kernels::GroupedGemmParams params = Params(weights_.experts.down);
  params.out = buffers_.output;
  params.out_stride = sum_columns();
  return context_->Run(&DeviceOps::grouped_gemm, params, "expert down") &&
         AddAdapters(Projection::kExpertDown, down, context_->input_rows, {buffers_.output, params.out_stride}) &&
         context_->Run(&DeviceOps::add_weighted_rows, add, "sum of the experts");
}

bool Experts::AddAdapters(Projection projection, const Linear& of_first, const float* in, const Columns& out) const {
  return !of_first.IsAdapted() ||
         context_->inputs.adapters->experts->Add(context_, projection, in, of_first.columns(), out);
}

// The rows that the experts read, in FP32, as Gather has them.
bool Experts::AddUpAdapters(const Linear& up, const Columns& out) const {
  if (!up.IsAdapted()) return true;
  float* const rows = context_->buffers.adapter_input;
  const kernels::CopyRowsParams params{.in = read_rows_,
                                       .in_stride = up.columns(),
                                       .rows = buffers_.rows,
                                       .out = rows,
                                       .num_rows = num_choices(),
                                       .columns = up.columns()};
  return context_->Run(&DeviceOps::copy_rows, params, "expert input") &&
         AddAdapters(Projection::kExpertUp, up, rows, out);
}

// Not seen by observers: which rows an expert has depends on the text.
bool Experts::Gather(const Linear& up) const {
  const kernels::QuantizeParams params{.in = read_rows_,
                                       .in_stride = context_->config.expert_dim(),
                                       .out = up.Input(num_choices()),
                                       .num_rows = num_choices(),
                                       .rows = buffers_.rows};
  return context_->Run(&DeviceOps::quantize, params, "expert input");
}

// A row has one choice, so that its weight is chosen_weights' of the same index.
bool Experts::ScaleInputs() const {
  const kernels::AddWeightedRowsParams params{.in = buffers_.normed,
                                              .places = nullptr,
                                              .num_places = 1,
                                              .weights = buffers_.chosen_weights,
                                              .weight_stride = 1,
                                              .sigmoid = false,
                                              .out = buffers_.scaled,
                                              .num_rows = context_->rows.count,
                                              .columns = context_->config.hidden_dim,
                                              .from_zero = true};
  return context_->Run(&DeviceOps::add_weighted_rows, params, "expert weights");
}

// Leaves the input of `down` in LayerContext::activation.
bool Experts::RunUp(const Linear& up, const Linear& down) const {
  kernels::Activation fused = down.InputIn(context_->buffers.mlp, num_choices());
  kernels::GroupedGemmParams params = Params(weights_.experts.up);
  kernels::GemmParams of_one = up.Params(num_choices());
  of_one.bias = up.bias();
  of_one.next = &fused;
  of_one.activation = context_->config.mlp.activation;
  const float limit = context_->config.experts.limit(context_->layer);
  const bool apart = context_->divided() || limit != 0.0F || IsAdapted(up, down);
  if (!apart && context_->Fuses(of_one)) {
    params.next = &fused;
    params.activation = of_one.activation;
    // A device may fuse in gemm alone; then it has written nothing.
    const kernels::Device& device = *context_->buffers.device;
    const kernels::KernelStatus status = device.ops->grouped_gemm(device.context, params);
    if (status != kernels::KernelStatus::kUnsupported) {
      context_->activation = fused;
      return context_->Check(status, "mlp up");
    }
    params.next = nullptr;
  }
  params.out = static_cast<float*>(context_->buffers.mlp);
  params.out_stride = up.weight().out_features;
  return context_->Run(&DeviceOps::grouped_gemm, params, "mlp up") &&
         AddUpAdapters(up, {params.out, params.out_stride}) && Activate(context_, down, num_choices(), limit);
}

kernels::GroupedGemmParams Experts::Params(const std::vector<LinearWeights>& weights) const {
  return {.in = &context_->activation,
          .weights = weights.data(),
          .num_groups = static_cast<int32_t>(weights.size()),
          .groups = buffers_.experts,
          .out = nullptr,
          .out_stride = 0,
          .num_rows = num_choices()};
}

bool Experts::RunShared(float* out) {
  const ModelConfig& config = context_->config;
  const LayerRows& rows = context_->rows;
  MlpMatrices shared(context_, weights_.shared_expert.up, weights_.shared_expert.down);
  const bool ready =
      shared.up().Quantize("expert input", buffers_.normed, rows.count) && shared.RunUp() && shared.RunActivation();
  if (!ready) return false;
  if (!config.experts.shared_gate) return shared.down().Run("expert down", out, out, rows.count);
  const kernels::AddWeightedRowsParams add{.in = buffers_.output,
                                           .places = nullptr,
                                           .num_places = 1,
                                           .weights = buffers_.logits + config.experts.routing.num_experts,
                                           .weight_stride = config.experts.router_features(),
                                           .sigmoid = true,
                                           .out = out,
                                           .num_rows = rows.count,
                                           .columns = config.part(config.hidden_dim).count};
  return shared.down().Run("expert down", nullptr, buffers_.output, rows.count) &&
         context_->Run(&DeviceOps::add_weighted_rows, add, "sum of the shared expert");
}

}  // namespace dunlin::engine
