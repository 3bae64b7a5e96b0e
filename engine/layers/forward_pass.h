// SPDX-License-Identifier: Apache-2.0
// One batch through a model: embeddings, layers, and the head over the rows that need logits. Decoders and encoders
// share the code: ModelConfig says which parts a layer has and where its norms stand, PassInputs which rows are
// computed. The modules are those of Transformer Engine: Linear, LayerNormLinear, LayerNormMlp, TransformerLayer. Each
// runs fused, or eager (one device operation per step) where LayerBuffers::unfused is given; both give the same bits.
// A ForwardPass lives for one batch on the engine thread. It allocates nothing unless an operation fails.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/layers/expert_buffers.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/layers/input_observer.h"
#include "engine/layers/latent_buffers.h"
#include "engine/layers/layer_buffers.h"
#include "engine/layers/layer_rows.h"
#include "engine/layers/pass_inputs.h"
#include "engine/model/model.h"
#include "engine/model/spec/attention_shape.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// A part of a layer that can run alone on the rows in `hidden`, for benches and tests.
enum class Module : uint8_t {
  kLinear,            // qkv = hidden W_qkv^T + bias
  kLayerNormLinear,   // qkv = norm(hidden) W_qkv^T + bias
  kLayerNormMlp,      // hidden += Down(f(Up(norm(hidden))))
  kAttentionBlock,    // hidden = Out(attention(hidden W_qkv^T)), without norm and residual (nanoGPT's module)
  kTransformerLayer,  // the whole layer, in place
};

class ForwardPass {
 public:
  // References are borrowed for the life of the object. weights: of profile.precision. scaling: the runtime's, or null
  // for a scale per row. observer: sees the input of every linear operation; only where buffers.unfused is given.
  ForwardPass(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
              const PassInputs& inputs, const LayerBuffers& buffers, const Fp8Scaling* scaling = nullptr,
              InputObserver* observer = nullptr);

  // Runs the layers and stores the keys and values of every token in their pages. After those of the last layer only
  // the kept rows are computed. INTERNAL names the operation and the layer that failed; the device can no longer be
  // trusted.
  absl::Status RunLayers();

  // Runs one module of one layer. REQUIRES: 0 <= layer < num_layers, NormPlacement::kPre or kPreAndPost, and no rotary
  // positions (RunLayers fills their table). Errors: as RunLayers.
  absl::Status RunModule(Module module, int32_t layer);

  // Logits of the kept rows [first, first + count) into LayerBuffers::logits, from its row 0. REQUIRES: a decoder,
  // RunLayers has succeeded, count <= kMaxLogitRows.
  absl::Status RunHead(int32_t first, int32_t count);

  // The logits of hidden()'s rows [0, num_rows) by the head of a sequence classifier: [num_rows, num_labels] in device
  // memory, in the buffer qkv. Overwrites hidden(). REQUIRES: num_labels > 0, RunLayers has succeeded, num_rows <=
  // inputs.kept.count. Errors: as RunLayers.
  absl::StatusOr<const float*> RunClassifier(int32_t num_rows);
  // hidden(), to be overwritten with the rows that RunClassifier reads, where they are not those of RunLayers.
  float* classifier_rows() { return rows_.hidden; }

  // [inputs.kept.count, hidden_dim] in device memory, valid after RunLayers: the hidden states of the kept rows or,
  // when every row is kept, of all rows in batch order. An encoder's have gone through its final norm.
  const float* hidden() const { return rows_.hidden; }

 private:
  // A linear operation and the index of its input (InputIndex, HeadInputIndex).
  struct Target {
    const LinearWeights& linear;
    int32_t input;
    int32_t columns() const { return static_cast<int32_t>(linear.weight.in_features); }
  };

  // The rows that a norm reads.
  struct NormRows {
    const float* in;        // [*, hidden_dim]
    const int32_t* picked;  // [count] or null for rows 0, 1, ...
    int32_t count;
  };
  NormRows all_rows() const { return {rows_.hidden, nullptr, rows_.count}; }

  // Every step below returns false after the first failure, which it has recorded.
  bool Embed();
  bool FillRotaryTables();
  bool Gather(const char* op, const kernels::PackedWeight& table, const int32_t* ids, bool accumulate, float scale);
  bool RunsModule(Module module);
  // The first and the second part of a layer: up to its keys and values in their pages, and the rest.
  bool LayerToKv(const LayerWeights& weights);
  bool LayerAfterKv(const LayerWeights& weights);
  // kPost: the layer's last norm, which makes the input of the next layer.
  bool EndLayer(const LayerWeights& weights);
  bool AttentionBlock(const LayerWeights& weights);
  // out = norm(rows) W^T + bias.
  bool LayerNormLinear(const char* norm_op, const char* op, const NormWeights& norm, const Target& linear,
                       const NormRows& rows, float* out);
  // hidden += Down(f(Up(norm(hidden)))), in two steps, or the experts' sum. MlpUp leaves f's input in the buffer mlp
  // or, where the device fuses f into the GEMM, the input of the down projection.
  bool LayerNormMlp(const LayerWeights& weights);
  bool MlpUp(const LayerWeights& weights);
  bool MlpDown(const LayerWeights& weights);
  // What MlpUp leaves, from the GEMM input of `up`; the GEMM input of `down` from that.
  bool UpProjection(const Target& up, const Target& down);
  bool DownInput(const Target& down);

  // Some columns of rows that are `stride` floats apart.
  struct Columns {
    float* data;
    int64_t stride;
  };

  // Latent attention (forward_pass_latent.cc), in place of the two steps below.
  bool LatentQkvToPages(const LayerWeights& weights);
  bool LatentQuery(const LayerWeights& weights, const LatentBuffers& buffers);
  bool NormLatent(const LayerWeights& weights, const LatentBuffers& buffers, const Columns& latent);
  bool AbsorbKeys(const LayerWeights& weights, const LatentBuffers& buffers);
  bool LatentAttend(const LayerWeights& weights, const Target& next);
  bool NormRank(const char* op, const NormWeights& weights, float* rows, int32_t columns);
  bool RoundAndMultiply(const char* op, const LinearWeights& linear, const Columns& in, const Columns& out);

  // Experts (forward_pass_experts.cc).
  bool LayerNormExperts(const LayerWeights& weights);
  bool Route(const LayerWeights& weights, const ExpertBuffers& buffers);
  bool Expert(const ExpertWeights& expert, const ExpertBuffers& buffers, int64_t first);
  bool SharedExpert(const ExpertWeights& expert, const ExpertBuffers& buffers);
  bool ExpertMlp(const ExpertWeights& expert, const float* in, const float* residual, float* out);

  // Steps of the modules (forward_pass_steps.cc). Those that take `next` write the GEMM input of that linear operation.
  bool QkvToPages(const LayerWeights& weights);
  bool Attend(const LayerWeights& weights, const Target& next);
  kernels::RotateAndStoreKvParams HeadsOf(const LayerWeights& weights) const;
  // Without an output.
  kernels::PagedAttentionParams AttentionParamsOf(const LayerWeights& weights) const;
  // kPost: normalises the rows in place, too; next may then be null, and nothing else is written.
  bool Norm(const char* op, const NormWeights& weights, const Target* next, const NormRows& rows);
  // Of the rows themselves, without an input of a linear operation.
  bool NormInPlace(const char* op, const NormWeights& weights);
  // The cosines and sines of the running layer's rotation, or null.
  const float* CosSin() const;
  bool Quantize(const char* op, const float* in, const Target& next, int32_t num_rows);
  bool Activate(const Target& next);
  // hidden += linear(activation), normalised first where the model has post norms.
  bool AddToResidual(const char* op, const LinearWeights& linear, const NormWeights& post_norm);
  bool CapLogits(int32_t num_rows);
  // The GEMM input of a classifier's last matrix `out` from what its first one gave in rows_.hidden.
  bool ClassifierInput(const Target& out, int32_t num_rows);
  // out = activation W^T + bias + residual; residual is null or out.
  bool Linear(const char* op, const LinearWeights& linear, const float* residual, float* out, int32_t num_rows);
  // out = activation W^T + bias for rows_.count rows.
  bool GemmTo(const char* op, const LinearWeights& linear, const Columns& out);
  bool Gemm(const char* op, const LinearWeights& linear, const float* bias, const float* residual, float* out,
            int32_t num_rows);
  kernels::NormParams NormParamsOf(const NormWeights& weights, int32_t num_rows) const;
  kernels::GemmParams GemmParamsOf(const LinearWeights& linear, int32_t num_rows) const;
  bool Ran(kernels::KernelStatus status, const char* op);
  absl::Status Failure() const;

  bool eager() const { return buffers_.unfused != nullptr; }
  // Without norms before the attention and the MLP: their inputs are the rows themselves.
  bool norms_inside() const { return config_.norm_placement == NormPlacement::kPostInside; }
  bool post_norm() const { return config_.norm_placement == NormPlacement::kPost; }
  // Where the running layer's keys and values lie.
  const KvPlace& kv_place() const { return buffers_.kv_places[static_cast<size_t>(layer_)]; }
  // The first product that reads the layer's input.
  Target QkvOf(int32_t layer) const {
    const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
    return {config_.has_latent_attention() ? weights.latent.kv_down : weights.qkv, InputIndex(layer, LayerInput::kQkv)};
  }

  // `data` as the GEMM input of `next`.
  kernels::Activation InputOf(const Target& next, void* data) const;
  // The activation buffer as the GEMM input of `next`.
  kernels::Activation* GemmInput(const Target& next);

  const ModelConfig& config_;
  const PrecisionWeights& weights_;
  const ExecutionProfile profile_;
  const PassInputs inputs_;
  const LayerBuffers& buffers_;
  const Fp8Scaling* const scaling_;
  InputObserver* const observer_;
  const kernels::DeviceOps& ops_;
  kernels::DeviceContext* const context_;
  const kernels::KvLayout layout_;
  LayerRows rows_{};
  kernels::Activation activation_;      // the input of the next GEMM
  kernels::Activation mlp_down_input_;  // the down projection's, in `mlp`; data is null where `mlp` holds f's input

  int32_t rotary_tokens_ = 0;                                          // of each rotary table
  std::array<kernels::ExpertRows, kernels::kExpertsMax> expert_rows_;  // of the running layer, from Route

  int32_t layer_ = -1;  // the running layer; -1 outside the layers
  const char* failed_op_ = nullptr;
  kernels::KernelStatus failed_status_ = kernels::KernelStatus::kOk;
};

}  // namespace dunlin::engine
