#include "engine/runtime/forward_pass.h"

#include "absl/strings/str_cat.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {

using kernels::KernelStatus;

namespace {

// As transformers rounds it: to the dtype of the weights it runs with, BF16 for FP8.
float EmbeddingScale(const ModelConfig& config, Precision precision) {
  if (precision == Precision::kFp32) return config.embedding_scale;
  if (precision == Precision::kFp16) return kernels::Fp16ToFloat(kernels::FloatToFp16(config.embedding_scale));
  return kernels::Bf16ToFloat(kernels::FloatToBf16(config.embedding_scale));
}

}  // namespace

ForwardPass::ForwardPass(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
                         const StepInputs& inputs, const StepBuffers& buffers, const Fp8Scaling* scaling)
    : config_(config),
      weights_(weights),
      profile_(profile),
      inputs_(inputs),
      buffers_(buffers),
      scaling_(scaling),
      ops_(*buffers.device()->ops),
      context_(buffers.device()->context),
      layout_(KvLayoutOf(config, profile.precision, buffers.plan().kv_fp8)) {}

absl::Status ForwardPass::RunLayers() {
  if (!Embed()) return Failure();
  for (layer_ = 0; layer_ < config_.num_layers; ++layer_) {
    if (!TransformerLayer(layer_)) return Failure();
  }
  layer_ = -1;
  return absl::OkStatus();
}

absl::Status ForwardPass::RunModule(Module module, int32_t layer) {
  layer_ = layer;
  absl::Status status = RunsModule(module) ? absl::OkStatus() : Failure();
  layer_ = -1;
  return status;
}

bool ForwardPass::RunsModule(Module module) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer_)];
  const Target qkv{weights.qkv, InputIndex(layer_, LayerInput::kQkv)};
  const int32_t num_tokens = inputs_.num_tokens();
  switch (module) {
    case Module::kLinear:
      return Quantize("quantize", buffers_.floats(BufferId::kHidden), qkv, num_tokens) &&
             Linear("linear", qkv.linear, nullptr, buffers_.floats(BufferId::kQkv), num_tokens);
    case Module::kLayerNormLinear:
      return LayerNormLinear("norm", "linear", weights.attention_norm, qkv, nullptr, num_tokens,
                             buffers_.floats(BufferId::kQkv));
    case Module::kLayerNormMlp:
      return LayerNormMlp(weights);
    case Module::kAttentionBlock:
      return AttentionBlock(weights);
    case Module::kTransformerLayer:
      return TransformerLayer(layer_);
  }
  return false;
}

bool ForwardPass::AttentionBlock(const LayerWeights& weights) {
  const Target qkv{weights.qkv, InputIndex(layer_, LayerInput::kQkv)};
  const Target out{weights.attention_out, InputIndex(layer_, LayerInput::kAttentionOut)};
  const int32_t num_tokens = inputs_.num_tokens();
  return Quantize("quantize", buffers_.floats(BufferId::kHidden), qkv, num_tokens) && LinearAndStoreKv(weights) &&
         Attend(out) && Linear("attention out", out.linear, nullptr, buffers_.floats(BufferId::kHidden), num_tokens);
}

absl::Status ForwardPass::RunHead(int32_t first, int32_t count) {
  const Target head{weights_.head, HeadInputIndex(config_)};
  const bool ran = LayerNormLinear("final norm", "head", weights_.final_norm, head, inputs_.head_row_index() + first,
                                   count, buffers_.floats(BufferId::kLogits)) &&
                   CapLogits(count);
  return ran ? absl::OkStatus() : Failure();
}

// With a parallel residual the MLP's first half runs before the attention's term is added: so both read the same hidden
// rows, and no copy of them is needed.
bool ForwardPass::TransformerLayer(int32_t layer) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const int32_t num_tokens = inputs_.num_tokens();
  const Target qkv{weights.qkv, InputIndex(layer, LayerInput::kQkv)};
  const Target out{weights.attention_out, InputIndex(layer, LayerInput::kAttentionOut)};
  const bool parallel = config_.parallel_residual;
  return Norm("attention norm", weights.attention_norm, qkv, nullptr, num_tokens) && LinearAndStoreKv(weights) &&
         (!parallel || MlpUp(weights)) && Attend(out) &&
         AddTerm("attention out", out.linear, weights.post_attention_norm) &&
         (parallel ? MlpDown(weights) : LayerNormMlp(weights));
}

bool ForwardPass::LayerNormLinear(const char* norm_op, const char* op, const NormWeights& norm, const Target& linear,
                                  const int32_t* rows, int32_t num_rows, float* out) {
  return Norm(norm_op, norm, linear, rows, num_rows) && Linear(op, linear.linear, nullptr, out, num_rows);
}

// A shared norm runs again: the two matrices may take inputs of different forms and scales.
bool ForwardPass::MlpUp(const LayerWeights& weights) {
  const Target up{weights.mlp_up, InputIndex(layer_, LayerInput::kMlpUp)};
  const Target down{weights.mlp_down, InputIndex(layer_, LayerInput::kMlpDown)};
  const NormWeights& norm = config_.shared_norm ? weights.attention_norm : weights.mlp_norm;
  const int32_t num_tokens = inputs_.num_tokens();
  if (!Norm("mlp norm", norm, up, nullptr, num_tokens)) return false;

  activated_ = InputOf(down, BufferId::kMlp);
  kernels::GemmParams params = GemmParamsOf(up.linear, num_tokens);
  params.bias = up.linear.bias;
  params.next = &activated_;
  params.activation = config_.activation;
  if (!eager() && ops_.gemm_fuses(context_, params)) {
    return Ran(ops_.gemm(context_, params), "mlp up");
  }
  activated_.data = nullptr;
  return Linear("mlp up", up.linear, nullptr, buffers_.floats(BufferId::kMlp), num_tokens);
}

bool ForwardPass::MlpDown(const LayerWeights& weights) {
  const Target down{weights.mlp_down, InputIndex(layer_, LayerInput::kMlpDown)};
  if (activated_.data != nullptr) {
    activation_ = activated_;
  } else if (!Activate(down)) {
    return false;
  }
  return AddTerm("mlp down", down.linear, weights.post_mlp_norm);
}

bool ForwardPass::Embed() {
  kernels::GatherRowsParams gather{};
  gather.weight = &weights_.embedding;
  gather.ids = inputs_.token_ids();
  gather.out = buffers_.floats(BufferId::kHidden);
  gather.num_rows = inputs_.num_tokens();
  gather.accumulate = false;
  gather.scale = EmbeddingScale(config_, profile_.precision);
  if (!Ran(ops_.gather_rows(context_, gather), "embedding")) return false;
  if (config_.learned_positions) {
    gather.weight = &weights_.positions;
    gather.ids = inputs_.positions();
    gather.accumulate = true;
    gather.scale = 1.0F;
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

// The product of Q, K and V, and K and V into pages: one operation where the device has it.
bool ForwardPass::LinearAndStoreKv(const LayerWeights& weights) {
  kernels::RotateAndStoreKvParams heads{};
  heads.qkv = buffers_.floats(BufferId::kQkv);
  heads.cos_sin = config_.rotary_dim > 0 ? buffers_.floats(BufferId::kRotary) : nullptr;
  heads.rotary_dim = config_.rotary_dim;
  heads.num_heads = config_.num_heads;
  heads.kv_pool = buffers_.at(BufferId::kKvPool);
  heads.layout = layout_;
  heads.layer = layer_;
  heads.token_page = inputs_.token_page();
  heads.token_slot = inputs_.token_slot();
  heads.num_tokens = inputs_.num_tokens();
  heads.query_norm = weights.query_norm.weight;
  heads.key_norm = weights.key_norm.weight;
  heads.norm_epsilon = config_.norm_epsilon;
  kernels::GemmParams params = GemmParamsOf(weights.qkv, inputs_.num_tokens());
  params.bias = weights.qkv.bias;
  params.out = heads.qkv;
  params.heads = &heads;
  if (!eager() && ops_.gemm_fuses(context_, params)) return Ran(ops_.gemm(context_, params), "qkv");
  return Linear("qkv", weights.qkv, nullptr, heads.qkv, inputs_.num_tokens()) &&
         Ran(ops_.rotate_and_store_kv(context_, heads), "rotate and store kv");
}

// Attention and the rounding of its output: one operation where the device has it.
bool ForwardPass::Attend(const Target& next) {
  kernels::PagedAttentionParams params{};
  params.backend = profile_.attention_backend;
  params.query = buffers_.floats(BufferId::kQkv);
  params.query_stride = config_.qkv_features();
  params.kv_pool = buffers_.at(BufferId::kKvPool);
  params.layout = layout_;
  params.layer = layer_;
  params.num_heads = config_.num_heads;
  params.page_table = inputs_.page_table();
  params.page_table_stride = inputs_.page_table_stride();
  params.sequences = inputs_.spans();
  params.num_sequences = inputs_.num_sequences();
  params.max_query_tokens = inputs_.max_query_tokens();
  params.max_kv_tokens = inputs_.max_kv_tokens();
  params.scale = config_.attention_scale;
  params.window = config_.window(layer_);
  params.softcap = config_.attention_softcap;
  params.workspace = buffers_.at(BufferId::kWorkspace);
  params.workspace_bytes = buffers_.bytes(BufferId::kWorkspace);
  params.next = GemmInput(next);
  if (!eager() && ops_.attention_fuses(context_, params)) {
    return Ran(ops_.paged_attention(context_, params), "paged attention");
  }
  params.next = nullptr;
  params.out = buffers_.floats(BufferId::kAttention);
  return Ran(ops_.paged_attention(context_, params), "paged attention") &&
         Quantize("attention quantize", params.out, next, inputs_.num_tokens());
}

bool ForwardPass::Norm(const char* op, const NormWeights& weights, const Target& next, const int32_t* rows,
                       int32_t num_rows) {
  kernels::NormParams params = NormParamsOf(weights, num_rows);
  params.in = buffers_.floats(BufferId::kHidden);
  params.rows = rows;
  if (!eager()) {
    params.out = GemmInput(next);
    return Ran(ops_.norm(context_, params), op);
  }
  kernels::Activation width{.columns = config_.hidden_dim};
  params.out = &width;
  params.rows_out = buffers_.floats(BufferId::kUnfused);
  return Ran(ops_.norm(context_, params), op) && Quantize(op, params.rows_out, next, num_rows);
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
  const kernels::QuantizeParams params{
      .in = in, .in_stride = next.columns(), .out = GemmInput(next), .num_rows = num_rows};
  return Ran(ops_.quantize(context_, params), op);
}

bool ForwardPass::Activate(const Target& next) {
  kernels::ActivateParams params{};
  params.kind = config_.activation;
  params.gated = config_.gated_mlp;
  params.in = buffers_.floats(BufferId::kMlp);
  params.num_rows = inputs_.num_tokens();
  if (!eager()) {
    params.out = GemmInput(next);
    return Ran(ops_.activate(context_, params), "activate");
  }
  kernels::Activation width{.columns = config_.ffn_dim};
  params.out = &width;
  params.rows_out = buffers_.floats(BufferId::kUnfused);
  return Ran(ops_.activate(context_, params), "activate") &&
         Quantize("mlp quantize", params.rows_out, next, params.num_rows);
}

// hidden += linear(activation), through its norm where the model has one.
bool ForwardPass::AddTerm(const char* op, const LinearWeights& linear, const NormWeights& post_norm) {
  const int32_t num_tokens = inputs_.num_tokens();
  float* hidden = buffers_.floats(BufferId::kHidden);
  if (!config_.post_norms) return Linear(op, linear, hidden, hidden, num_tokens);
  float* term = buffers_.floats(BufferId::kTerm);
  kernels::Activation width{.columns = config_.hidden_dim};
  kernels::NormParams norm = NormParamsOf(post_norm, num_tokens);
  norm.in = term;
  norm.out = &width;
  if (!Linear(op, linear, nullptr, term, num_tokens)) return false;
  if (!eager()) {
    norm.residual = norm.rows_out = hidden;
    return Ran(ops_.norm(context_, norm), "post norm");
  }
  norm.rows_out = term;
  kernels::AddParams add{};
  add.rows = hidden;
  add.residual = term;
  add.num_rows = num_tokens;
  add.columns = config_.hidden_dim;
  return Ran(ops_.norm(context_, norm), "post norm") && Ran(ops_.add(context_, add), "post norm residual");
}

bool ForwardPass::CapLogits(int32_t num_rows) {
  if (config_.logit_softcap == 0.0F) return true;
  const kernels::SoftcapParams params{.values = buffers_.floats(BufferId::kLogits),
                                      .cap = config_.logit_softcap,
                                      .num_rows = num_rows,
                                      .columns = config_.vocab_size};
  return Ran(ops_.softcap(context_, params), "logit softcap");
}

bool ForwardPass::Linear(const char* op, const LinearWeights& linear, const float* residual, float* out,
                         int32_t num_rows) {
  if (!eager()) return Gemm(op, linear, linear.bias, residual, out, num_rows);
  float* product = residual == nullptr ? out : buffers_.floats(BufferId::kUnfused);
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

// Without bias, residual and output.
kernels::GemmParams ForwardPass::GemmParamsOf(const LinearWeights& linear, int32_t num_rows) const {
  kernels::GemmParams params{};
  params.in = &activation_;
  params.weight = &linear.weight;
  params.out_stride = linear.weight.out_features;
  params.num_rows = num_rows;
  // Rows of the head give the next token: their phase is decode, whichever made the hidden row.
  params.decode_rows = layer_ < 0 ? num_rows : inputs_.num_decode_tokens();
  params.deterministic = buffers_.plan().deterministic;
  return params;
}

kernels::Activation ForwardPass::InputOf(const Target& next, BufferId buffer) const {
  kernels::Activation input = {.data = buffers_.at(buffer),
                               .precision = next.linear.weight.precision,
                               .capacity_rows = buffers_.plan().max_tokens_per_step,
                               .columns = next.columns(),
                               .scale_block = next.linear.weight.scale_block,
                               .amax_limit = weights_.input_amax_limit};
  if (scaling_ != nullptr) scaling_->Apply(next.input, &input);
  return input;
}

kernels::Activation* ForwardPass::GemmInput(const Target& next) {
  activation_ = InputOf(next, BufferId::kActivation);
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
