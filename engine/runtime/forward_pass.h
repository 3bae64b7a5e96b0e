// One sub-batch through the model: embeddings, decoder layers, and the head over the rows that need logits. One layer
// function for every architecture; ModelConfig says which parts it has. It is built from the modules that Transformer
// Engine's users know: Linear, LayerNormLinear, LayerNormMlp, TransformerLayer. Each has two executions of one
// description, fused and eager (ExecutionMode); a plan with the buffer kUnfused chooses eager.
// A ForwardPass lives for one sub-batch on the engine thread. It allocates nothing unless an operation fails.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/model/model_config.h"
#include "engine/runtime/fp8_scaling.h"
#include "engine/runtime/layer_rows.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_inputs.h"
#include "engine/types.h"

namespace dunlin::engine {

// A part of a layer that can run alone, on the rows in kHidden: what a bench times, and users of modules know by name.
enum class Module : uint8_t {
  kLinear,            // kQkv = hidden W^T + bias, of the fused QKV matrix
  kLayerNormLinear,   // kQkv = norm(hidden) W^T + bias
  kLayerNormMlp,      // hidden += Down(f(Up(norm(hidden))))
  kAttentionBlock,    // hidden = Out(attention(hidden W_qkv^T)): without norm and residual, as nanoGPT's module
  kTransformerLayer,  // the whole layer, in place
};

class ForwardPass {
 public:
  // Arguments are borrowed for the life of the object. inputs: staged and uploaded. weights: of profile.precision.
  // scaling: of the runtime, or null for a scale per row.
  ForwardPass(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
              const StepInputs& inputs, const StepBuffers& buffers, const Fp8Scaling* scaling = nullptr);

  // Runs the layers: K and V of every token are in their pages. Behind those of the last layer only the rows of the
  // head go on. INTERNAL names the operation and the layer that failed; the device can no longer be trusted.
  absl::Status RunLayers();

  // Runs one module of one layer. REQUIRES: 0 <= layer < num_layers, and a model without rotary positions, whose table
  // RunLayers makes. INTERNAL as RunLayers.
  absl::Status RunModule(Module module, int32_t layer);

  // Logits of inputs.head_rows()[first, first + count) into kLogits, row i of the block for head row first + i.
  // REQUIRES: RunLayers has succeeded; count <= kHeadBlockRows.
  absl::Status RunHead(int32_t first, int32_t count);

 private:
  // A linear operation and the index of its input (InputIndex, HeadInputIndex).
  struct Target {
    const LinearWeights& linear;
    int32_t input;
    int32_t columns() const { return static_cast<int32_t>(linear.weight.in_features); }
  };

  // The input of a norm.
  struct NormRows {
    const float* in;        // [*, hidden_dim]
    const int32_t* picked;  // [count], or null for the first of them
    int32_t count;
  };
  NormRows every_row() const { return {rows_.hidden, nullptr, rows_.count}; }

  bool Embed();
  bool RunsModule(Module module);
  // Attention norm to K and V, and what follows.
  bool LayerToKv(const LayerWeights& weights);
  bool LayerBehindKv(const LayerWeights& weights);
  // What RunLayers and RunModule begin with.
  void TakeEveryRow();
  // From here on, the rows of the head alone, in the phase decode: nothing reads what a layer would make of the others.
  bool KeepHeadRows();
  bool AttentionBlock(const LayerWeights& weights);
  // out = norm(rows) W^T + bias.
  bool LayerNormLinear(const char* norm_op, const char* op, const NormWeights& norm, const Target& linear,
                       const NormRows& rows, float* out);
  // hidden += Down(f(Up(norm(hidden)))), in two halves. The first leaves f's input in kMlp, or, where the device's
  // product has f in it, the second's input.
  bool LayerNormMlp(const LayerWeights& weights) { return MlpUp(weights) && MlpDown(weights); }
  bool MlpUp(const LayerWeights& weights);
  bool MlpDown(const LayerWeights& weights);
  bool LinearAndStoreKv(const LayerWeights& weights);
  // Makes the input of `next`.
  bool Attend(const Target& next);
  // The steps below return false after the first failure, which they have noted.
  // Each of the three makes the input of `next`.
  bool Norm(const char* op, const NormWeights& weights, const Target& next, const NormRows& rows);
  bool Quantize(const char* op, const float* in, const Target& next, int32_t num_rows);
  bool Activate(const Target& next);
  kernels::NormParams NormParamsOf(const NormWeights& weights, int32_t num_rows) const;
  bool AddTerm(const char* op, const LinearWeights& linear, const NormWeights& post_norm);
  bool CapLogits(int32_t num_rows);
  // out = activation W^T + bias + residual; residual is null or out.
  bool Linear(const char* op, const LinearWeights& linear, const float* residual, float* out, int32_t num_rows);
  bool Gemm(const char* op, const LinearWeights& linear, const float* bias, const float* residual, float* out,
            int32_t num_rows);
  kernels::GemmParams GemmParamsOf(const LinearWeights& linear, int32_t num_rows) const;
  bool Ran(kernels::KernelStatus status, const char* op);
  absl::Status Failure() const;

  bool eager() const { return buffers_.bytes(BufferId::kUnfused) > 0; }

  // A buffer in the form that `next` multiplies.
  kernels::Activation InputOf(const Target& next, BufferId buffer) const;
  // The activation buffer, so.
  kernels::Activation* GemmInput(const Target& next);

  const ModelConfig& config_;
  const PrecisionWeights& weights_;
  const ExecutionProfile profile_;
  const StepInputs& inputs_;
  const StepBuffers& buffers_;
  const Fp8Scaling* const scaling_;
  const kernels::DeviceOps& ops_;
  kernels::DeviceContext* const context_;
  const kernels::KvLayout layout_;
  LayerRows rows_{};
  int32_t decode_rows_ = 0;  // the first of rows_: GemmParams::decode_rows
  kernels::Activation activation_;
  kernels::Activation activated_;  // kMlp as the input of the MLP's second half; data null: kMlp holds f's input

  int32_t layer_ = -1;  // the one that runs; -1 outside of the layers
  const char* failed_op_ = nullptr;
  kernels::KernelStatus failed_status_ = kernels::KernelStatus::kOk;
};

}  // namespace dunlin::engine
