// SPDX-License-Identifier: Apache-2.0
// The modules of a decoder layer in FP64, row by row, on the weights that the device holds (read back by its
// gather_rows): the reference of the layer bench. LayerNorm, GELU in its tanh form, multi-head attention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/layers/forward_pass.h"
#include "engine/model/model.h"
#include "kernels/api/device.h"
#include "tools/bench/proof.h"

namespace dunlin::tools::bench {

class LayerReference {
 public:
  // REQUIRES: a model of one layer with LayerNorm, a plain GELU (tanh) MLP, as many KV heads as heads, no rotary
  // positions. model and device outlive this.
  static absl::StatusOr<LayerReference> Create(const engine::Model& model, engine::Precision precision);

  // The outputs of a module for row `position` of a sequence whose input rows are `hidden` [>= position + 1,
  // hidden_dim], with the magnitudes of their terms. Attention reads the rows up to `position`.
  std::vector<Sample> Row(engine::Module module, std::span<const float> hidden, int32_t position) const;

 private:
  struct Matrix {
    int32_t out_features;
    int32_t in_features;
    std::vector<float> weight;  // [out_features, in_features]
    std::vector<float> bias;    // empty: none
  };
  struct Norm {
    std::vector<float> weight;
    std::vector<float> bias;
  };
  // A row, and for each value the sum of the magnitudes of its terms, by which input errors may scale.
  struct Values {
    std::vector<double> exact;
    std::vector<double> magnitude;
  };

  static Values Plain(std::span<const float> row);
  Values Normed(const Norm& norm, const Values& in) const;
  static Values Multiply(const Matrix& matrix, const Values& in, int32_t first, int32_t count);
  static Values Multiply(const Matrix& matrix, const Values& in) {
    return Multiply(matrix, in, 0, matrix.out_features);
  }
  static void Add(const Values& term, Values* sum);
  Values QkvInput(std::span<const float> hidden, int32_t position, bool normed) const;
  Values Attention(std::span<const float> hidden, int32_t position, bool normed) const;
  Values Mlp(const Values& in) const;

  engine::ModelConfig config_;
  Norm attention_norm_;
  Norm mlp_norm_;
  Matrix qkv_{};
  Matrix out_{};
  Matrix up_{};
  Matrix down_{};
};

}  // namespace dunlin::tools::bench
