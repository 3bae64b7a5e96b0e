// One ragged batch through an encoder: embeddings, then layers whose norms stand behind their residuals. The final
// hidden states are in hidden(), one row a token, or, where the batch pools one row of each input, those rows alone.
// An EncoderPass lives for one batch on the engine thread. It allocates nothing unless an operation fails.
// Source: Vaswani et al. 2017, section 3.1 (post-norm); Devlin et al. 2018.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/encoder/ragged_batch.h"
#include "engine/model/model.h"
#include "engine/model/model_config.h"
#include "engine/runtime/layer_rows.h"
#include "engine/runtime/step_buffers.h"
#include "engine/types.h"

namespace dunlin::engine {

class EncoderPass {
 public:
  // Arguments are borrowed for the life of the object. batch: staged and uploaded. weights: of profile.precision.
  EncoderPass(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
              const RaggedBatch& batch, const StepBuffers& buffers);

  // INTERNAL names the operation and the layer that failed; the device can no longer be trusted.
  absl::Status Run();

  // [batch.num_rows(), hidden_dim] on the device, valid after Run.
  const float* hidden() const { return rows_.hidden; }

 private:
  bool Embed();
  // next: the first GEMM of the layer behind it; null behind the last.
  bool Layer(const LayerWeights& weights, const LinearWeights* next);
  // The steps below return false after the first failure, which they have noted.
  bool Gather(const char* op, const kernels::PackedWeight& table, const int32_t* rows, bool accumulate);
  bool LinearAndStoreKv(const LinearWeights& linear);
  // Each of the four makes the input of `next`; Norm works in place too, and may have nothing behind it.
  bool Attend(const LinearWeights& next);
  bool Norm(const char* op, const NormWeights& weights, const LinearWeights* next);
  bool Quantize(const float* in, const LinearWeights& next);
  bool Activate(const LinearWeights& next);
  // Both matrices of the MLP: hidden += Down(f(Up(activation))).
  bool Mlp(const LayerWeights& weights);
  bool KeepPooledRows();
  bool Linear(const char* op, const LinearWeights& linear, const float* residual, float* out);
  bool Ran(kernels::KernelStatus status, const char* op);
  absl::Status Failure() const;

  kernels::GemmParams GemmParamsOf(const LinearWeights& linear) const;
  // A buffer in the form that `next` multiplies.
  kernels::Activation InputOf(const LinearWeights& next, BufferId buffer) const;
  // The activation buffer, so.
  kernels::Activation* GemmInput(const LinearWeights& next);

  const ModelConfig& config_;
  const PrecisionWeights& weights_;
  const ExecutionProfile profile_;
  const RaggedBatch& batch_;
  const StepBuffers& buffers_;
  const kernels::DeviceOps& ops_;
  kernels::DeviceContext* const context_;
  const kernels::KvLayout layout_;
  LayerRows rows_;
  kernels::Activation activation_;

  int32_t layer_ = -1;  // the one that runs; -1 outside of the layers
  const char* failed_op_ = nullptr;
  kernels::KernelStatus failed_status_ = kernels::KernelStatus::kOk;
};

}  // namespace dunlin::engine
