// SPDX-License-Identifier: Apache-2.0
// A layer with both an MLP and experts (ExpertSpec::beside_mlp): hidden += PostNorm(Norm1(MLP(Norm(hidden))) +
// Norm2(Experts(hidden))), the experts with norms of their own.
#pragma once

#include "engine/layers/experts.h"
#include "engine/layers/mlp.h"

namespace dunlin::engine {

class MlpAndExperts {
 public:
  MlpAndExperts(LayerContext* context, const LayerWeights& weights);

  static bool IsIn(const ModelConfig& config, int32_t layer) {
    return config.experts.beside_mlp && config.experts.in_layer(layer);
  }

  // Both parts share buffers, so that all is done in Run. REQUIRES: no parallel residual.
  bool Begin() { return true; }
  bool Run();

 private:
  // The MLP's rows, normed, in buffers.term: of a divided model the rank's share of the rows.
  bool RunMlp();
  bool RunDown(float* term) const;
  // In place: term += Norm2(the experts' sum).
  bool AddExperts() const;

  LayerContext* context_;
  const LayerWeights& weights_;
  MlpMatrices matrices_;
  Experts experts_;
};

}  // namespace dunlin::engine
