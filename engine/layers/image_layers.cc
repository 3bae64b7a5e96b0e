// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/image_layers.h"

#include "engine/layers/norm.h"

namespace dunlin::engine {

using kernels::DeviceOps;

bool PatchEmbedding::Run() const {
  const Linear patches(context_, context_->weights.patch_embedding, kUnobservedInput);
  const LayerRows& rows = context_->rows;
  const float* positions = context_->config.image.position_side > 0 ? rows.hidden : nullptr;
  return patches.Quantize("patches", context_->buffers.qkv, rows.count) &&
         patches.Run("patch embedding", positions, rows.hidden, rows.count) &&
         (!context_->config.embedding.norm ||
          Norm(context_, context_->weights.embedding_norm).Run("patch norm", rows.hidden));
}

Projector::Projector(LayerContext* context)
    : context_(context),
      merge_(context, context->weights.projector.merge, kUnobservedInput),
      up_(context, context->weights.projector.up, kUnobservedInput),
      down_(context, context->weights.projector.down, kUnobservedInput) {}

bool Projector::Run() const {
  const LayerBuffers& buffers = context_->buffers;
  const int32_t num_rows = context_->rows.count / context_->config.image.patches_per_row();
  auto* const wide = static_cast<float*>(buffers.mlp);
  return NormPatches(buffers.attention) && QuantizeMerged(buffers.attention, num_rows) &&
         up_.Run("projector up", nullptr, wide, num_rows) && RunActivation(wide, num_rows) &&
         down_.Quantize("projector activation", wide, num_rows) &&
         down_.Run("projector down", nullptr, buffers.qkv, num_rows);
}

// Merged rows are the normed ones of their patches, read as one.
bool Projector::QuantizeMerged(const float* patches, int32_t num_rows) const {
  if (!context_->config.image.merge_matrix) return up_.Quantize("merged patches", patches, num_rows);
  float* const merged = context_->buffers.qkv;
  return merge_.Quantize("merged patches", patches, num_rows) &&
         merge_.Run("patch merger", nullptr, merged, num_rows) && up_.Quantize("projector input", merged, num_rows);
}

bool Projector::NormPatches(float* out) const {
  const ModelConfig& config = context_->config;
  kernels::NormParams params = Norm(context_, context_->weights.projector.norm).Params(context_->rows.count);
  kernels::Activation width{.columns = config.hidden_dim};
  params.epsilon = config.image.norm_epsilon;
  params.in = context_->rows.hidden;
  params.rows_out = out;
  params.out = &width;
  return context_->Run(&DeviceOps::norm, params, "projector norm");
}

bool Projector::RunActivation(float* rows, int32_t num_rows) const {
  kernels::Activation width{.columns = context_->config.image.projector_dim};
  const kernels::ActivateParams activate{.kind = context_->config.image.activation,
                                         .gated = false,
                                         .in = rows,
                                         .out = &width,
                                         .num_rows = num_rows,
                                         .rows_out = rows};
  return context_->Run(&DeviceOps::activate, activate, "projector activation");
}

}  // namespace dunlin::engine
