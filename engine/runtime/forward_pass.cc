#include "engine/runtime/forward_pass.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

using kernels::KernelStatus;

ForwardPass::ForwardPass(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
                         const StepInputs& inputs, const StepBuffers& buffers)
    : config_(config),
      weights_(weights),
      profile_(profile),
      inputs_(inputs),
      buffers_(buffers),
      ops_(*buffers.device()->ops),
      context_(buffers.device()->context),
      layout_(KvLayoutOf(config, profile.precision)) {}

absl::Status ForwardPass::RunLayers() {
  if (!Embed()) return Failure();
  for (layer_ = 0; layer_ < config_.num_layers; ++layer_) {
    if (!Layer(layer_)) return Failure();
  }
  layer_ = -1;
  return absl::OkStatus();
}

absl::Status ForwardPass::RunHead(int32_t first, int32_t count) {
  const LinearWeights head{.weight = weights_.head, .bias = nullptr};
  const bool ran = Norm("final norm", weights_.final_norm, head, inputs_.head_row_index() + first, count) &&
                   Linear("head", head, nullptr, buffers_.floats(BufferId::kLogits), count);
  return ran ? absl::OkStatus() : Failure();
}

bool ForwardPass::Layer(int32_t layer) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const int32_t num_tokens = inputs_.num_tokens();
  float* hidden = buffers_.floats(BufferId::kHidden);
  return Norm("attention norm", weights.attention_norm, weights.qkv, nullptr, num_tokens) &&
         Linear("qkv", weights.qkv, nullptr, buffers_.floats(BufferId::kQkv), num_tokens) && StoreKv() && Attend() &&
         Quantize("attention quantize", buffers_.floats(BufferId::kAttention), weights.attention_out) &&
         Linear("attention out", weights.attention_out, hidden, hidden, num_tokens) &&
         Norm("mlp norm", weights.mlp_norm, weights.mlp_up, nullptr, num_tokens) &&
         Linear("mlp up", weights.mlp_up, nullptr, buffers_.floats(BufferId::kMlp), num_tokens) &&
         Activate(weights.mlp_down) && Linear("mlp down", weights.mlp_down, hidden, hidden, num_tokens);
}

bool ForwardPass::Embed() {
  kernels::GatherRowsParams gather{};
  gather.weight = &weights_.embedding;
  gather.ids = inputs_.token_ids();
  gather.out = buffers_.floats(BufferId::kHidden);
  gather.num_rows = inputs_.num_tokens();
  gather.accumulate = false;
  if (!Ran(ops_.gather_rows(context_, gather), "embedding")) return false;
  if (config_.learned_positions) {
    gather.weight = &weights_.positions;
    gather.ids = inputs_.positions();
    gather.accumulate = true;
    if (!Ran(ops_.gather_rows(context_, gather), "position embedding")) return false;
  }
  if (config_.rotary_dim == 0) return true;
  kernels::RotaryTableParams rotary{};
  rotary.positions = inputs_.positions();
  rotary.inv_freq = buffers_.floats(BufferId::kFrequencies);
  rotary.attention_factor = config_.rotary_attention_factor;
  rotary.rotary_dim = config_.rotary_dim;
  rotary.cos_sin = buffers_.floats(BufferId::kRotary);
  rotary.num_tokens = inputs_.num_tokens();
  return Ran(ops_.rotary_table(context_, rotary), "rotary table");
}

bool ForwardPass::StoreKv() {
  kernels::RotateAndStoreKvParams params{};
  params.qkv = buffers_.floats(BufferId::kQkv);
  params.cos_sin = config_.rotary_dim > 0 ? buffers_.floats(BufferId::kRotary) : nullptr;
  params.rotary_dim = config_.rotary_dim;
  params.num_heads = config_.num_heads;
  params.kv_pool = buffers_.at(BufferId::kKvPool);
  params.layout = layout_;
  params.layer = layer_;
  params.token_page = inputs_.token_page();
  params.token_slot = inputs_.token_slot();
  params.num_tokens = inputs_.num_tokens();
  return Ran(ops_.rotate_and_store_kv(context_, params), "rotate and store kv");
}

bool ForwardPass::Attend() {
  kernels::PagedAttentionParams params{};
  params.backend = profile_.attention_backend;
  params.query = buffers_.floats(BufferId::kQkv);
  params.query_stride = config_.qkv_features();
  params.out = buffers_.floats(BufferId::kAttention);
  params.kv_pool = buffers_.at(BufferId::kKvPool);
  params.layout = layout_;
  params.layer = layer_;
  params.num_heads = config_.num_heads;
  params.page_table = inputs_.page_table();
  params.page_table_stride = inputs_.page_table_stride();
  params.sequences = inputs_.spans();
  params.num_sequences = inputs_.num_sequences();
  params.scale = config_.attention_scale;
  params.workspace = buffers_.at(BufferId::kWorkspace);
  params.workspace_bytes = buffers_.bytes(BufferId::kWorkspace);
  return Ran(ops_.paged_attention(context_, params), "paged attention");
}

bool ForwardPass::Norm(const char* op, const NormWeights& weights, const LinearWeights& next, const int32_t* rows,
                       int32_t num_rows) {
  kernels::NormParams params{};
  params.kind = config_.norm_kind;
  params.in = buffers_.floats(BufferId::kHidden);
  params.rows = rows;
  params.weight = weights.weight;
  params.bias = weights.bias;
  params.epsilon = config_.norm_epsilon;
  params.out = GemmInput(next);
  params.num_rows = num_rows;
  return Ran(ops_.norm(context_, params), op);
}

bool ForwardPass::Quantize(const char* op, const float* in, const LinearWeights& next) {
  const kernels::QuantizeParams params{
      .in = in, .in_stride = next.weight.in_features, .out = GemmInput(next), .num_rows = inputs_.num_tokens()};
  return Ran(ops_.quantize(context_, params), op);
}

bool ForwardPass::Activate(const LinearWeights& next) {
  kernels::ActivateParams params{};
  params.kind = config_.activation;
  params.gated = config_.gated_mlp;
  params.in = buffers_.floats(BufferId::kMlp);
  params.out = GemmInput(next);
  params.num_rows = inputs_.num_tokens();
  return Ran(ops_.activate(context_, params), "activate");
}

bool ForwardPass::Linear(const char* op, const LinearWeights& linear, const float* residual, float* out,
                         int32_t num_rows) {
  kernels::GemmParams params{};
  params.in = &activation_;
  params.weight = &linear.weight;
  params.bias = linear.bias;
  params.residual = residual;
  params.out = out;
  params.out_stride = linear.weight.out_features;
  params.num_rows = num_rows;
  return Ran(ops_.gemm(context_, params), op);
}

kernels::Activation* ForwardPass::GemmInput(const LinearWeights& next) {
  activation_ = {.data = buffers_.at(BufferId::kActivation),
                 .precision = next.weight.precision,
                 .capacity_rows = buffers_.plan().max_tokens_per_step,
                 .columns = static_cast<int32_t>(next.weight.in_features),
                 .scale_block = next.weight.scale_block,
                 .amax_limit = weights_.input_amax_limit};
  return &activation_;
}

bool ForwardPass::Ran(KernelStatus status, const char* op) {
  if (status == KernelStatus::kOk) return true;
  failed_op_ = op;
  failed_status_ = status;
  return false;
}

absl::Status ForwardPass::Failure() const {
  const std::string where = layer_ >= 0 ? absl::StrCat(" in layer ", layer_) : "";
  return absl::InternalError(absl::StrCat(failed_op_, where, " failed: ", kernels::Name(failed_status_)));
}

}  // namespace dunlin::engine
