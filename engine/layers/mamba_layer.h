// SPDX-License-Identifier: Apache-2.0
// Mamba2, in place of attention or next to it: the fused projection of z, x, B, C and steps, a causal convolution over
// x, B and C, the scan, and z's gate with a norm before or after it, or none. Its output projection is the decoder
// layer's. What later tokens read is the sequence's state in its slot. Source: Dao & Gu 2024, "Transformers are SSMs".
#pragma once

#include "engine/layers/linear.h"
#include "engine/layers/mamba_buffers.h"

namespace dunlin::engine {

class MambaLayer {
 public:
  MambaLayer(LayerContext* context, const LayerWeights& weights);

  static bool IsIn(const ModelConfig& config, int32_t layer) { return config.mixer(layer) == MixerKind::kMamba; }
  // The first product that reads a layer's input.
  static Linear InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer);

  // From the input: every row goes through the state. The rows that are read after it stay in the buffers.
  bool StoreKv() const;
  // Of the rows that go on: the input of `next`.
  bool Run(const Linear& next) const;

 private:
  bool Convolve(const StatePart& part) const;
  bool Scan(const StatePart& part) const;
  // The scan times SiLU(z), as the input of `next`.
  bool Gate(const Linear& next) const;
  // The rank's columns of the output projection's input, all where the model is not divided.
  RankPart OwnFeatures() const;
  // Where ranks share a group's norm: of all columns, which every rank gathers.
  bool NormGathered(const Linear& next) const;

  LayerContext* context_;
  const LayerWeights& layer_;
  const MambaWeights& weights_;
  const MambaSpec& spec_;
  float* const projected_;  // [T, input_features], of the input projection
  const MambaBuffers buffers_;
};

}  // namespace dunlin::engine
