// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/forward_pass.h"

#include "absl/strings/str_cat.h"
#include "engine/model/spec/attention_shape.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {

using kernels::KernelStatus;

namespace {

// Rounded as transformers rounds it: to the dtype of the model's weights, BF16 for FP8.
float EmbeddingScale(const ModelConfig& config, Precision precision) {
  if (precision == Precision::kFp32) return config.embedding_scale;
  if (precision == Precision::kFp16) return kernels::Fp16ToFloat(kernels::FloatToFp16(config.embedding_scale));
  return kernels::Bf16ToFloat(kernels::FloatToBf16(config.embedding_scale));
}

}  // namespace

ForwardPass::ForwardPass(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
                         const PassInputs& inputs, const LayerBuffers& buffers, const Fp8Scaling* scaling,
                         InputObserver* observer)
    : config_(config),
      weights_(weights),
      profile_(profile),
      inputs_(inputs),
      buffers_(buffers),
      scaling_(scaling),
      observer_(observer),
      ops_(*buffers.device->ops),
      context_(buffers.device->context),
      layout_(KvLayoutOf(buffers.kv_shape, profile.precision, buffers.kv_fp8)) {}

absl::Status ForwardPass::RunLayers() {
  rows_ = AllRows(config_, buffers_, inputs_);
  if (!Embed()) return Failure();
  for (layer_ = 0; layer_ < config_.num_layers; ++layer_) {
    const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer_)];
    if (!LayerToKv(weights)) return Failure();
    if (layer_ + 1 == config_.num_layers &&
        !Ran(KeepRows(config_, buffers_, inputs_.kept, &rows_), "copy of the kept rows")) {
      return Failure();
    }
    if (rows_.count > 0 && !LayerAfterKv(weights)) return Failure();
  }
  layer_ = -1;
  // What an encoder returns is what a decoder's head would read.
  const bool ends = config_.is_encoder() && !post_norm() && rows_.count > 0;
  if (ends && !NormInPlace("final norm", weights_.final_norm)) return Failure();
  return absl::OkStatus();
}

absl::Status ForwardPass::RunModule(Module module, int32_t layer) {
  rows_ = AllRows(config_, buffers_, inputs_);
  layer_ = layer;
  absl::Status status = RunsModule(module) ? absl::OkStatus() : Failure();
  layer_ = -1;
  return status;
}

bool ForwardPass::RunsModule(Module module) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer_)];
  const Target qkv = QkvOf(layer_);
  switch (module) {
    case Module::kLinear:
      return Quantize("quantize", rows_.hidden, qkv, rows_.count) &&
             Linear("linear", qkv.linear, nullptr, buffers_.qkv, rows_.count);
    case Module::kLayerNormLinear:
      return LayerNormLinear("norm", "linear", weights.attention_norm, qkv, all_rows(), buffers_.qkv);
    case Module::kLayerNormMlp:
      return LayerNormMlp(weights);
    case Module::kAttentionBlock:
      return AttentionBlock(weights);
    case Module::kTransformerLayer:
      return LayerToKv(weights) && LayerAfterKv(weights);
  }
  return false;
}

bool ForwardPass::AttentionBlock(const LayerWeights& weights) {
  const Target out{weights.attention_out, InputIndex(layer_, LayerInput::kAttentionOut)};
  return Quantize("quantize", rows_.hidden, QkvOf(layer_), rows_.count) && QkvToPages(weights) &&
         Attend(weights, out) && Linear("attention out", out.linear, nullptr, rows_.hidden, rows_.count);
}

absl::Status ForwardPass::RunHead(int32_t first, int32_t count) {
  const Target head{weights_.head, HeadInputIndex(config_)};
  const KeptRows& kept = inputs_.kept;
  const NormRows rows = kept.spans.count > 0
                            ? NormRows{rows_.hidden + int64_t{first} * config_.hidden_dim, nullptr, count}
                            : NormRows{rows_.hidden, kept.index + first, count};
  const bool ran =
      LayerNormLinear("final norm", "head", weights_.final_norm, head, rows, buffers_.logits) && CapLogits(count);
  return ran ? absl::OkStatus() : Failure();
}

// The terms are added in transformers' order: word, type, position. A post-norm model normalises their sum, which makes
// the input of the first layer.
bool ForwardPass::Embed() {
  if (!Gather("embedding", weights_.embedding, inputs_.token_ids, false, EmbeddingScale(config_, profile_.precision))) {
    return false;
  }
  if (config_.num_token_types > 0 &&
      !Gather("token type embedding", weights_.token_types, inputs_.token_types, true, 1.0F)) {
    return false;
  }
  if (config_.learned_positions && !Gather("position embedding", weights_.positions, inputs_.positions, true, 1.0F)) {
    return false;
  }
  if (post_norm()) {
    const Target qkv = QkvOf(0);
    if (!Norm("embedding norm", weights_.embedding_norm, &qkv, all_rows())) return false;
  } else if (config_.embedding_norm && !NormInPlace("embedding norm", weights_.embedding_norm)) {
    return false;
  }
  return FillRotaryTables();
}

bool ForwardPass::FillRotaryTables() {
  rotary_tokens_ = rows_.count;
  for (int32_t i = 0; i < config_.num_rotaries(); ++i) {
    const kernels::RotaryTableParams rotary{
        .positions = inputs_.positions,
        .inv_freq = buffers_.position_constants + int64_t{i} * (config_.rotary_dim / 2),
        .attention_factor = config_.rotary_attention_factor(i),
        .rotary_dim = config_.rotary_dim,
        .cos_sin = buffers_.rotary + int64_t{i} * rotary_tokens_ * config_.rotary_dim,
        .num_tokens = rotary_tokens_};
    if (!Ran(ops_.rotary_table(context_, rotary), "rotary table")) return false;
  }
  return true;
}

bool ForwardPass::Gather(const char* op, const kernels::PackedWeight& table, const int32_t* ids, bool accumulate,
                         float scale) {
  const kernels::GatherRowsParams params{.weight = &table,
                                         .ids = ids,
                                         .out = rows_.hidden,
                                         .num_rows = rows_.count,
                                         .accumulate = accumulate,
                                         .scale = scale};
  return Ran(ops_.gather_rows(context_, params), op);
}

bool ForwardPass::LayerToKv(const LayerWeights& weights) {
  const Target qkv = QkvOf(layer_);
  const bool unnormed = norms_inside() || (layer_ == 0 && config_.first_norm_absent);
  if (unnormed) return Quantize("qkv input", rows_.hidden, qkv, rows_.count) && QkvToPages(weights);
  return (post_norm() || Norm("attention norm", weights.attention_norm, &qkv, all_rows())) && QkvToPages(weights);
}

// With a parallel residual the MLP's up projection runs before the attention's output is added, so that both read the
// same hidden rows without a copy.
bool ForwardPass::LayerAfterKv(const LayerWeights& weights) {
  const Target out{weights.attention_out, InputIndex(layer_, LayerInput::kAttentionOut)};
  const bool parallel = config_.parallel_residual;
  return (!parallel || MlpUp(weights)) && Attend(weights, out) &&
         AddToResidual("attention out", out.linear, weights.post_attention_norm) &&
         (parallel ? MlpDown(weights) : LayerNormMlp(weights)) && (!post_norm() || EndLayer(weights));
}

bool ForwardPass::EndLayer(const LayerWeights& weights) {
  if (layer_ + 1 == config_.num_layers) return Norm("mlp norm", weights.mlp_norm, nullptr, all_rows());
  const Target next = QkvOf(layer_ + 1);
  return Norm("mlp norm", weights.mlp_norm, &next, all_rows());
}

bool ForwardPass::LayerNormLinear(const char* norm_op, const char* op, const NormWeights& norm, const Target& linear,
                                  const NormRows& rows, float* out) {
  return Norm(norm_op, norm, &linear, rows) && Linear(op, linear.linear, nullptr, out, rows.count);
}

// The norm before the MLP is mlp_norm; attention_norm where that stands after the attention or is shared. A shared norm
// runs again, because the two projections may take inputs of different precisions and scales.
bool ForwardPass::MlpUp(const LayerWeights& weights) {
  const Target up{weights.mlp_up, InputIndex(layer_, LayerInput::kMlpUp)};
  const Target down{weights.mlp_down, InputIndex(layer_, LayerInput::kMlpDown)};
  const bool own_norm = !config_.shared_norm && !post_norm();
  const NormWeights& norm = own_norm ? weights.mlp_norm : weights.attention_norm;
  const bool ready = norms_inside() ? Quantize("mlp input", rows_.hidden, up, rows_.count)
                                    : Norm(post_norm() ? "attention norm" : "mlp norm", norm, &up, all_rows());
  return ready && UpProjection(up, down);
}

bool ForwardPass::UpProjection(const Target& up, const Target& down) {
  mlp_down_input_ = InputOf(down, buffers_.mlp);
  kernels::GemmParams params = GemmParamsOf(up.linear, rows_.count);
  params.bias = up.linear.bias;
  params.next = &mlp_down_input_;
  params.activation = config_.activation;
  if (!eager() && ops_.gemm_fuses(context_, params)) {
    return Ran(ops_.gemm(context_, params), "mlp up");
  }
  mlp_down_input_.data = nullptr;
  return Linear("mlp up", up.linear, nullptr, static_cast<float*>(buffers_.mlp), rows_.count);
}

bool ForwardPass::MlpDown(const LayerWeights& weights) {
  const Target down{weights.mlp_down, InputIndex(layer_, LayerInput::kMlpDown)};
  return DownInput(down) && AddToResidual("mlp down", down.linear, weights.post_mlp_norm);
}

bool ForwardPass::DownInput(const Target& down) {
  if (mlp_down_input_.data == nullptr) return Activate(down);
  activation_ = mlp_down_input_;
  return true;
}

bool ForwardPass::LayerNormMlp(const LayerWeights& weights) {
  return weights.experts.empty() ? MlpUp(weights) && MlpDown(weights) : LayerNormExperts(weights);
}

bool ForwardPass::Ran(KernelStatus status, const char* op) {
  if (status == KernelStatus::kOk) {
    if (std::atomic<uint64_t>* progress = buffers_.progress; progress != nullptr) {
      progress->store(progress->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    return true;
  }
  failed_op_ = op;
  failed_status_ = status;
  return false;
}

absl::Status ForwardPass::Failure() const {
  const std::string where = layer_ >= 0 ? absl::StrCat(" in layer ", layer_) : "";
  return absl::InternalError(absl::StrCat(failed_op_, where, " failed: ", kernels::Name(failed_status_)));
}

}  // namespace dunlin::engine
