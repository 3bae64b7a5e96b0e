#include "engine/encoder/encoder_pass.h"

#include "absl/strings/str_cat.h"
#include "engine/encoder/encoder_memory.h"

namespace dunlin::engine {

using kernels::KernelStatus;

EncoderPass::EncoderPass(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
                         const RaggedBatch& batch, const StepBuffers& buffers)
    : config_(config),
      weights_(weights),
      profile_(profile),
      batch_(batch),
      buffers_(buffers),
      ops_(*buffers.device()->ops),
      context_(buffers.device()->context),
      layout_(LayerKvLayoutOf(config, profile.precision)),
      rows_(EveryRow(config, buffers, batch.query_spans(), batch.num_tokens())) {}

absl::Status EncoderPass::Run() {
  if (!Embed()) return Failure();
  for (layer_ = 0; layer_ < config_.num_layers; ++layer_) {
    const LayerWeights* layer = &weights_.layers[static_cast<size_t>(layer_)];
    if (!Layer(*layer, layer_ + 1 < config_.num_layers ? &layer[1].qkv : nullptr)) return Failure();
  }
  layer_ = -1;
  return absl::OkStatus();
}

// The sums are in the order of transformers: word, type, position.
bool EncoderPass::Embed() {
  return Gather("embedding", weights_.embedding, batch_.token_ids(), false) &&
         (config_.num_token_types == 0 ||
          Gather("token type embedding", weights_.token_types, batch_.token_types(), true)) &&
         Gather("position embedding", weights_.positions, batch_.positions(), true) &&
         Norm("embedding norm", weights_.embedding_norm, &weights_.layers.front().qkv);
}

bool EncoderPass::Layer(const LayerWeights& weights, const LinearWeights* next) {
  const bool last = next == nullptr;
  return LinearAndStoreKv(weights.qkv) && (!last || KeepPooledRows()) && Attend(weights.attention_out) &&
         Linear("attention out", weights.attention_out, rows_.hidden, rows_.hidden) &&
         Norm("attention norm", weights.attention_norm, &weights.mlp_up) && Mlp(weights) &&
         Norm("mlp norm", weights.mlp_norm, next);
}

// Nothing reads what the last layer would make of the other rows.
bool EncoderPass::KeepPooledRows() {
  if (!batch_.pools_one_row()) return true;
  return Ran(KeepRows(config_, buffers_, batch_.pooled_rows(), batch_.pooled_spans(), batch_.num_inputs(), &rows_),
             "copy of the pooled rows");
}

bool EncoderPass::Mlp(const LayerWeights& weights) {
  kernels::Activation activated = InputOf(weights.mlp_down, BufferId::kMlp);
  kernels::GemmParams params = GemmParamsOf(weights.mlp_up);
  params.next = &activated;
  params.activation = config_.activation;
  if (ops_.gemm_fuses(context_, params)) {
    if (!Ran(ops_.gemm(context_, params), "mlp up")) return false;
    activation_ = activated;
  } else if (!Linear("mlp up", weights.mlp_up, nullptr, buffers_.floats(BufferId::kMlp)) ||
             !Activate(weights.mlp_down)) {
    return false;
  }
  return Linear("mlp down", weights.mlp_down, rows_.hidden, rows_.hidden);
}

bool EncoderPass::Gather(const char* op, const kernels::PackedWeight& table, const int32_t* rows, bool accumulate) {
  const kernels::GatherRowsParams params{
      .weight = &table, .ids = rows, .out = rows_.hidden, .num_rows = rows_.count, .accumulate = accumulate};
  return Ran(ops_.gather_rows(context_, params), op);
}

bool EncoderPass::LinearAndStoreKv(const LinearWeights& linear) {
  kernels::RotateAndStoreKvParams heads{};
  heads.qkv = buffers_.floats(BufferId::kQkv);
  heads.num_heads = config_.num_heads;
  heads.kv_pool = buffers_.at(BufferId::kKvPool);
  heads.layout = layout_;
  heads.layer = 0;
  heads.token_page = batch_.token_page();
  heads.token_slot = batch_.token_slot();
  heads.num_tokens = batch_.num_tokens();
  kernels::GemmParams params = GemmParamsOf(linear);
  params.out = heads.qkv;
  params.heads = &heads;
  if (ops_.gemm_fuses(context_, params)) return Ran(ops_.gemm(context_, params), "qkv");
  return Linear("qkv", linear, nullptr, heads.qkv) && Ran(ops_.rotate_and_store_kv(context_, heads), "store kv");
}

bool EncoderPass::Attend(const LinearWeights& next) {
  kernels::PagedAttentionParams params{};
  params.backend = profile_.attention_backend;
  params.query = rows_.query;
  params.query_stride = rows_.query_stride;
  params.kv_pool = buffers_.at(BufferId::kKvPool);
  params.layout = layout_;
  params.layer = 0;
  params.num_heads = config_.num_heads;
  params.page_table = batch_.page_table();
  params.page_table_stride = batch_.page_table_stride();
  params.sequences = rows_.spans.first;
  params.num_sequences = rows_.spans.count;
  params.max_query_tokens = rows_.spans.max_query_tokens;
  params.max_kv_tokens = rows_.spans.max_kv_tokens;
  params.scale = config_.attention_scale;
  params.causal = false;
  params.workspace = buffers_.at(BufferId::kWorkspace);
  params.workspace_bytes = buffers_.bytes(BufferId::kWorkspace);
  params.next = GemmInput(next);
  if (ops_.attention_fuses(context_, params)) return Ran(ops_.paged_attention(context_, params), "paged attention");
  params.next = nullptr;
  params.out = buffers_.floats(BufferId::kAttention);
  return Ran(ops_.paged_attention(context_, params), "paged attention") && Quantize(params.out, next);
}

bool EncoderPass::Norm(const char* op, const NormWeights& weights, const LinearWeights* next) {
  // Behind the last norm nothing is multiplied: then the rows alone are written.
  kernels::Activation none{};
  none.columns = config_.hidden_dim;
  kernels::NormParams params{};
  params.kind = config_.norm_kind;
  params.in = rows_.hidden;
  params.weight = weights.weight;
  params.bias = weights.bias;
  params.epsilon = config_.norm_epsilon;
  params.out = next != nullptr ? GemmInput(*next) : &none;
  params.num_rows = rows_.count;
  params.rows_out = rows_.hidden;
  return Ran(ops_.norm(context_, params), op);
}

bool EncoderPass::Quantize(const float* in, const LinearWeights& next) {
  const kernels::QuantizeParams params{
      .in = in, .in_stride = next.weight.in_features, .out = GemmInput(next), .num_rows = rows_.count};
  return Ran(ops_.quantize(context_, params), "attention quantize");
}

bool EncoderPass::Activate(const LinearWeights& next) {
  kernels::ActivateParams params{};
  params.kind = config_.activation;
  params.gated = config_.gated_mlp;
  params.in = buffers_.floats(BufferId::kMlp);
  params.out = GemmInput(next);
  params.num_rows = rows_.count;
  return Ran(ops_.activate(context_, params), "activate");
}

bool EncoderPass::Linear(const char* op, const LinearWeights& linear, const float* residual, float* out) {
  kernels::GemmParams params = GemmParamsOf(linear);
  params.residual = residual;
  params.out = out;
  return Ran(ops_.gemm(context_, params), op);
}

// Without residual and output.
kernels::GemmParams EncoderPass::GemmParamsOf(const LinearWeights& linear) const {
  kernels::GemmParams params{};
  params.in = &activation_;
  params.weight = &linear.weight;
  params.bias = linear.bias;
  params.out_stride = linear.weight.out_features;
  params.num_rows = rows_.count;
  params.deterministic = buffers_.plan().deterministic;
  return params;
}

kernels::Activation EncoderPass::InputOf(const LinearWeights& next, BufferId buffer) const {
  return {.data = buffers_.at(buffer),
          .precision = next.weight.precision,
          .capacity_rows = buffers_.plan().max_tokens_per_step,
          .columns = static_cast<int32_t>(next.weight.in_features),
          .scale_block = next.weight.scale_block,
          .amax_limit = weights_.input_amax_limit};
}

kernels::Activation* EncoderPass::GemmInput(const LinearWeights& next) {
  activation_ = InputOf(next, BufferId::kActivation);
  return &activation_;
}

bool EncoderPass::Ran(KernelStatus status, const char* op) {
  if (status == KernelStatus::kOk) return true;
  failed_op_ = op;
  failed_status_ = status;
  return false;
}

absl::Status EncoderPass::Failure() const {
  const std::string where = layer_ >= 0 ? absl::StrCat(" in layer ", layer_) : "";
  return absl::InternalError(absl::StrCat(failed_op_, where, " failed: ", kernels::Name(failed_status_)));
}

}  // namespace dunlin::engine
