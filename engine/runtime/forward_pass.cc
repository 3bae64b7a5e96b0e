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

void ForwardPass::TakeEveryRow() {
  rows_ = EveryRow(config_, buffers_, inputs_.query_spans(), inputs_.num_tokens());
  decode_rows_ = inputs_.num_decode_tokens();
}

absl::Status ForwardPass::RunLayers() {
  TakeEveryRow();
  if (!Embed()) return Failure();
  for (layer_ = 0; layer_ < config_.num_layers; ++layer_) {
    const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer_)];
    if (!LayerToKv(weights)) return Failure();
    if (layer_ + 1 == config_.num_layers && !KeepHeadRows()) return Failure();
    if (rows_.count > 0 && !LayerBehindKv(weights)) return Failure();
  }
  layer_ = -1;
  return absl::OkStatus();
}

absl::Status ForwardPass::RunModule(Module module, int32_t layer) {
  TakeEveryRow();
  layer_ = layer;
  absl::Status status = RunsModule(module) ? absl::OkStatus() : Failure();
  layer_ = -1;
  return status;
}

bool ForwardPass::RunsModule(Module module) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer_)];
  const Target qkv{weights.qkv, InputIndex(layer_, LayerInput::kQkv)};
  switch (module) {
    case Module::kLinear:
      return Quantize("quantize", rows_.hidden, qkv, rows_.count) &&
             Linear("linear", qkv.linear, nullptr, buffers_.floats(BufferId::kQkv), rows_.count);
    case Module::kLayerNormLinear:
      return LayerNormLinear("norm", "linear", weights.attention_norm, qkv, every_row(),
                             buffers_.floats(BufferId::kQkv));
    case Module::kLayerNormMlp:
      return LayerNormMlp(weights);
    case Module::kAttentionBlock:
      return AttentionBlock(weights);
    case Module::kTransformerLayer:
      return LayerToKv(weights) && LayerBehindKv(weights);
  }
  return false;
}

bool ForwardPass::AttentionBlock(const LayerWeights& weights) {
  const Target qkv{weights.qkv, InputIndex(layer_, LayerInput::kQkv)};
  const Target out{weights.attention_out, InputIndex(layer_, LayerInput::kAttentionOut)};
  return Quantize("quantize", rows_.hidden, qkv, rows_.count) && LinearAndStoreKv(weights) && Attend(out) &&
         Linear("attention out", out.linear, nullptr, rows_.hidden, rows_.count);
}

absl::Status ForwardPass::RunHead(int32_t first, int32_t count) {
  const Target head{weights_.head, HeadInputIndex(config_)};
  const NormRows rows = inputs_.has_head_spans()
                            ? NormRows{rows_.hidden + int64_t{first} * config_.hidden_dim, nullptr, count}
                            : NormRows{rows_.hidden, inputs_.head_row_index() + first, count};
  const bool ran =
      LayerNormLinear("final norm", "head", weights_.final_norm, head, rows, buffers_.floats(BufferId::kLogits)) &&
      CapLogits(count);
  return ran ? absl::OkStatus() : Failure();
}

bool ForwardPass::LayerToKv(const LayerWeights& weights) {
  const Target qkv{weights.qkv, InputIndex(layer_, LayerInput::kQkv)};
  return Norm("attention norm", weights.attention_norm, qkv, every_row()) && LinearAndStoreKv(weights);
}

// With a parallel residual the MLP's first half runs before the attention's term is added: so both read the same hidden
// rows, and no copy of them is needed.
bool ForwardPass::LayerBehindKv(const LayerWeights& weights) {
  const Target out{weights.attention_out, InputIndex(layer_, LayerInput::kAttentionOut)};
  const bool parallel = config_.parallel_residual;
  return (!parallel || MlpUp(weights)) && Attend(out) &&
         AddTerm("attention out", out.linear, weights.post_attention_norm) &&
         (parallel ? MlpDown(weights) : LayerNormMlp(weights));
}

// The rows give the next token, so that their phase is decode, as the head's: whichever neighbours make them few.
bool ForwardPass::KeepHeadRows() {
  const auto count = static_cast<int32_t>(inputs_.head_rows().size());
  if (count == 0) {
    rows_.count = 0;
  } else if (inputs_.has_head_spans() &&
             !Ran(KeepRows(config_, buffers_, inputs_.head_row_index(), inputs_.head_spans(), count, &rows_),
                  "copy of the head's rows")) {
    return false;
  }
  decode_rows_ = rows_.count;
  return true;
}

bool ForwardPass::LayerNormLinear(const char* norm_op, const char* op, const NormWeights& norm, const Target& linear,
                                  const NormRows& rows, float* out) {
  return Norm(norm_op, norm, linear, rows) && Linear(op, linear.linear, nullptr, out, rows.count);
}

// A shared norm runs again: the two matrices may take inputs of different forms and scales.
bool ForwardPass::MlpUp(const LayerWeights& weights) {
  const Target up{weights.mlp_up, InputIndex(layer_, LayerInput::kMlpUp)};
  const Target down{weights.mlp_down, InputIndex(layer_, LayerInput::kMlpDown)};
  const NormWeights& norm = config_.shared_norm ? weights.attention_norm : weights.mlp_norm;
  if (!Norm("mlp norm", norm, up, every_row())) return false;

  activated_ = InputOf(down, BufferId::kMlp);
  kernels::GemmParams params = GemmParamsOf(up.linear, rows_.count);
  params.bias = up.linear.bias;
  params.next = &activated_;
  params.activation = config_.activation;
  if (!eager() && ops_.gemm_fuses(context_, params)) {
    return Ran(ops_.gemm(context_, params), "mlp up");
  }
  activated_.data = nullptr;
  return Linear("mlp up", up.linear, nullptr, buffers_.floats(BufferId::kMlp), rows_.count);
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
  gather.out = rows_.hidden;
  gather.num_rows = rows_.count;
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
  rotary.num_tokens = rows_.count;
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
  heads.num_tokens = rows_.count;
  heads.query_norm = weights.query_norm.weight;
  heads.key_norm = weights.key_norm.weight;
  heads.norm_epsilon = config_.norm_epsilon;
  kernels::GemmParams params = GemmParamsOf(weights.qkv, rows_.count);
  params.bias = weights.qkv.bias;
  params.out = heads.qkv;
  params.heads = &heads;
  if (!eager() && ops_.gemm_fuses(context_, params)) return Ran(ops_.gemm(context_, params), "qkv");
  return Linear("qkv", weights.qkv, nullptr, heads.qkv, rows_.count) &&
         Ran(ops_.rotate_and_store_kv(context_, heads), "rotate and store kv");
}

// Attention and the rounding of its output: one operation where the device has it.
bool ForwardPass::Attend(const Target& next) {
  kernels::PagedAttentionParams params{};
  params.backend = profile_.attention_backend;
  params.query = rows_.query;
  params.query_stride = rows_.query_stride;
  params.kv_pool = buffers_.at(BufferId::kKvPool);
  params.layout = layout_;
  params.layer = layer_;
  params.num_heads = config_.num_heads;
  params.page_table = inputs_.page_table();
  params.page_table_stride = inputs_.page_table_stride();
  params.sequences = rows_.spans.first;
  params.num_sequences = rows_.spans.count;
  params.max_query_tokens = rows_.spans.max_query_tokens;
  params.max_kv_tokens = rows_.spans.max_kv_tokens;
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
         Quantize("attention quantize", params.out, next, rows_.count);
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
