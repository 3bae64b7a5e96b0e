// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/forward_pass.h"

#include "engine/layers/classifier.h"
#include "engine/layers/decoder_layer.h"
#include "engine/layers/embedding.h"
#include "engine/layers/image_layers.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"
#include "engine/layers/residual_streams.h"

namespace dunlin::engine {
ForwardPass::ForwardPass(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
                         const PassInputs& inputs, const LayerBuffers& buffers, const Fp8Scaling* scaling,
                         InputObserver* observer)
    : context_{.config = config,
               .weights = weights,
               .profile = profile,
               .inputs = inputs,
               .buffers = buffers,
               .scaling = scaling,
               .observer = observer,
               .kv_layouts = KvLayoutsOf(buffers, profile.precision)} {}

absl::Status ForwardPass::RunLayers() {
  const ModelConfig& config = context_.config;
  context_.rows = AllRows(config, context_.buffers, context_.inputs);
  bool ran = FillFirstRows() && (!config.has_streams() || ResidualStreams(&context_).Begin());
  for (int32_t layer = 0; ran && layer < config.num_layers; ++layer) ran = RunLayer(layer);
  if (ran && config.has_streams()) ran = ReadLastStreams();
  if (ran && (config.num_predictors > 0 || config.has_streams())) ran = KeepAfterLayers();
  if (!ran) return context_.Failure();
  context_.layer = -1;
  // What an encoder returns is what a decoder's head would read.
  const bool has_norm = config.is_encoder() && !context_.post_norm() && !config.is_image_encoder();
  const bool normed = !has_norm || context_.rows.count == 0;
  return StatusOf(normed || Norm(&context_, context_.weights.final_norm).RunInPlace("final norm"));
}

bool ForwardPass::FillFirstRows() {
  return context_.config.is_image_encoder() ? PatchEmbedding(&context_).Run() : Embedding(&context_).Run();
}

// The kept rows are picked after it, of all rows.
bool ForwardPass::ReadLastStreams() {
  if (context_.inputs.kept.count == 0) return true;
  return ResidualStreams(&context_).Read(context_.weights.head_streams, true);
}

bool ForwardPass::KeepAfterLayers() {
  static constexpr char kOp[] = "copy of the kept rows";
  const KeptRows& kept = context_.inputs.kept;
  return context_.Check(KeepHidden(context_.config, context_.buffers, kept, &context_.rows), kOp) &&
         (kept.spans.count == 0 || MeetOverRows(&context_, kOp));
}

bool ForwardPass::RunLayer(int32_t layer) {
  context_.layer = layer;
  const int32_t last_storing = context_.config.last_storing_layer();
  if (layer > last_storing && context_.rows.count == 0) return true;
  DecoderLayer decoder_layer(&context_);
  if (context_.config.has_streams()) {
    const bool ends = layer == last_storing && context_.inputs.kept.count == 0;
    return decoder_layer.AttentionInputsOfStreams() && (ends || decoder_layer.AttentionAndMlpOfStreams());
  }
  if (!decoder_layer.AttentionInputs()) return false;
  if (layer == last_storing && context_.config.num_predictors == 0) {
    static constexpr char kOp[] = "copy of the kept rows";
    const KeptRows& kept = context_.inputs.kept;
    if (!context_.Check(KeepRows(context_.config, context_.buffers, kept, layer, &context_.rows), kOp)) return false;
    if (kept.spans.count > 0 && !MeetOverRows(&context_, kOp)) return false;
  }
  return context_.rows.count == 0 || decoder_layer.AttentionAndMlp();
}

absl::Status ForwardPass::KeepFinalHidden(float* out) {
  context_.layer = -1;
  context_.rows = AllRows(context_.config, context_.buffers, context_.inputs);
  if (context_.config.predictor.unnormed) return StatusOf(CopyHidden(&context_, "hidden rows", out));
  return StatusOf(Norm(&context_, context_.weights.final_norm).Run("final norm", out));
}

absl::Status ForwardPass::RunModule(Module module, int32_t layer) {
  context_.rows = AllRows(context_.config, context_.buffers, context_.inputs);
  context_.layer = layer;
  absl::Status status = StatusOf(RunModuleOf(module));
  context_.layer = -1;
  return status;
}

bool ForwardPass::RunModuleOf(Module module) {
  const LayerWeights& weights = context_.weights.layers[static_cast<size_t>(context_.layer)];
  const LayerRows& rows = context_.rows;
  const Linear qkv = DecoderLayer::InputOf(&context_, context_.layer);
  DecoderLayer layer(&context_);
  switch (module) {
    case Module::kLinear:
      return qkv.Quantize("quantize", rows.hidden, rows.count) &&
             qkv.Run("linear", nullptr, context_.buffers.qkv, rows.count);
    case Module::kLayerNormLinear:
      return Norm(&context_, weights.attention_norm).Run("norm", &qkv, RowsOf(context_)) &&
             qkv.Run("linear", nullptr, context_.buffers.qkv, rows.count);
    case Module::kLayerNormMlp:
      return layer.RunMlp();
    case Module::kAttentionBlock:
      return layer.RunAttentionAlone();
    case Module::kTransformerLayer:
      return layer.AttentionInputs() && layer.AttentionAndMlp();
  }
  return false;
}

absl::Status ForwardPass::RunHead(int32_t first, int32_t count) {
  return StatusOf(Head(&context_).Run(first, count));
}

absl::StatusOr<const float*> ForwardPass::RunClassifier(int32_t num_rows) {
  if (!Classifier(&context_).Run(num_rows)) return context_.Failure();
  return context_.buffers.qkv;
}

absl::StatusOr<const float*> ForwardPass::RunProjector() {
  if (!Projector(&context_).Run()) return context_.Failure();
  return context_.buffers.qkv;
}

}  // namespace dunlin::engine
