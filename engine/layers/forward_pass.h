// SPDX-License-Identifier: Apache-2.0
// One batch through a model: embeddings, layers, and the head over the rows that need logits. Decoders and encoders
// share the code: ModelConfig says which parts a layer has and where its norms stand, PassInputs which rows are
// computed. The modules are those of Transformer Engine: Linear, LayerNormLinear, LayerNormMlp, TransformerLayer. Each
// runs fused, or eager (one device operation per step) where LayerBuffers::unfused is given; both give the same bits.
// A ForwardPass lives for one batch on the engine thread. It allocates nothing unless an operation fails.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/layers/layer_context.h"
#include "engine/model/spec/attention_shape.h"

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

  // Runs the layers and stores the keys and values of every token in their pages. After those of
  // ModelConfig::last_storing_layer only the kept rows are computed, unless a layer behind it needs them all
  // (num_predictors). INTERNAL names the operation and the layer that
  // failed; the device can no longer be trusted.
  absl::Status RunLayers();

  // Runs one module of one layer. REQUIRES: 0 <= layer < num_layers, NormPlacement::kPre or kPreAndPost, and no rotary
  // positions (RunLayers fills their table). Errors: as RunLayers.
  absl::Status RunModule(Module module, int32_t layer);

  // Logits of the kept rows [first, first + count) into LayerBuffers::logits, from its row 0. REQUIRES: a decoder,
  // RunLayers has succeeded, count <= kMaxLogitRows.
  absl::Status RunHead(int32_t first, int32_t count);

  // The hidden rows of all tokens after the final norm into `out`, [num_tokens, hidden_dim] in device memory.
  // REQUIRES: num_predictors > 0, RunLayers has succeeded. Errors: as RunLayers. No RunHead may follow.
  absl::Status KeepFinalHidden(float* out);

  // The logits of hidden()'s rows [0, num_rows) by the head of a sequence classifier: [num_rows, num_labels] in device
  // memory, in the buffer qkv. Overwrites hidden(). REQUIRES: num_labels > 0, RunLayers has succeeded, num_rows <=
  // inputs.kept.count. Errors: as RunLayers.
  absl::StatusOr<const float*> RunClassifier(int32_t num_rows);
  // Of an encoder of images: what its projector makes of hidden(), which it leaves alone, [inputs.num_tokens /
  // ImageSpec::patches_per_row(), ImageSpec::out_dim] in device memory, in the buffer qkv. REQUIRES: RunLayers has
  // succeeded. Errors: as RunLayers.
  absl::StatusOr<const float*> RunProjector();

  // hidden(), to be overwritten with the rows that RunClassifier reads, where they are not those of RunLayers.
  float* classifier_rows() { return context_.rows.hidden; }

  // [inputs.kept.count, hidden_dim] in device memory, valid after RunLayers: the hidden states of the kept rows or,
  // when every row is kept, of all rows in batch order. An encoder's have gone through its final norm, if it has one.
  const float* hidden() const { return context_.rows.hidden; }

 private:
  bool FillFirstRows();
  bool RunLayer(int32_t layer);
  bool ReadLastStreams();
  bool KeepAfterLayers();
  bool RunModuleOf(Module module);
  absl::Status StatusOf(bool ran) const { return ran ? absl::OkStatus() : context_.Failure(); }

  LayerContext context_;
};

}  // namespace dunlin::engine
