// SPDX-License-Identifier: Apache-2.0
// A layer's MLP: hidden += Down(f(Up(norm(hidden)))). In two parts, because with a parallel residual the first runs
// before the attention's output is added, so that both read the same rows without a copy.
#pragma once

#include <cstdint>

#include "engine/layers/linear.h"

namespace dunlin::engine {

// The two matrices of an MLP with the activation between them; the experts of a layer have them, too.
class MlpMatrices {
 public:
  // curve: LayerWeights::mlp_curve.
  MlpMatrices(LayerContext* context, const LinearWeights& up, const LinearWeights& down, const float* curve = nullptr);

  const Linear& up() const { return up_; }
  const Linear& down() const { return down_; }

  // From the input of `up`: in buffers.mlp what the activation reads or, where the device fuses it, the input of down.
  bool RunUp();
  // From that: LayerContext::activation as the input of down.
  bool RunActivation() const;

 private:
  LayerContext* context_;
  Linear up_;
  Linear down_;
  float limit_;  // ActivateParams', as the next
  const float* curve_;
  kernels::Activation fused_{};  // the input of down in buffers.mlp; data is null where that holds the activation's
};

// f of the num_rows rows in buffers.mlp as the input of `next`. limit, curve: ActivateParams'.
bool Activate(LayerContext* context, const Linear& next, int32_t num_rows, float limit, const float* curve = nullptr);

// Factor of the rows at the end of a layer's MLP, or null: of the layer's unless something is added after.
const float* FactorAfterMlp(const LayerContext& context, const LayerWeights& weights);

class Mlp {
 public:
  Mlp(LayerContext* context, const LayerWeights& weights);

  // Every layer without a channel mixer of another kind.
  static bool IsIn(const ModelConfig& /*config*/, int32_t /*layer*/) { return true; }

  // Reads hidden.
  bool Begin();
  // Adds to hidden, which others may have changed since.
  bool Run();

 private:
  LayerContext* context_;
  const LayerWeights& weights_;
  MlpMatrices matrices_;
};

}  // namespace dunlin::engine
