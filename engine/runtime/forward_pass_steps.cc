// The steps of a layer's modules: each is one operation of the device, or, in the eager execution, several.
#include "engine/runtime/forward_pass.h"

namespace dunlin::engine {

bool ForwardPass::Norm(const char* op, const NormWeights& weights, const Target& next, const NormRows& rows) {
  kernels::NormParams params = NormParamsOf(weights, rows.count);
  params.in = rows.in;
  params.rows = rows.picked;
  if (!eager()) {
    params.out = GemmInput(next);
    return Ran(ops_.norm(context_, params), op);
  }
  kernels::Activation width{.columns = config_.hidden_dim};
  params.out = &width;
  params.rows_out = buffers_.floats(BufferId::kUnfused);
  return Ran(ops_.norm(context_, params), op) && Quantize(op, params.rows_out, next, rows.count);
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
  params.num_rows = rows_.count;
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
  float* hidden = rows_.hidden;
  if (!config_.post_norms) return Linear(op, linear, hidden, hidden, rows_.count);
  float* term = buffers_.floats(BufferId::kTerm);
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
  params.decode_rows = layer_ < 0 ? num_rows : decode_rows_;
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

}  // namespace dunlin::engine
