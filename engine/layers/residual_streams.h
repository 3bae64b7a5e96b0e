// SPDX-License-Identifier: Apache-2.0
// Several residual streams (StreamSpec): `hidden` is what a term reads and then what it gives; the streams are apart.
#pragma once

#include <cstddef>

#include "engine/layers/linear.h"

namespace dunlin::engine {

// T = max_tokens.
struct StreamBuffers {
  float* streams = nullptr;  // [T, count, hidden_dim]
  float* mixes = nullptr;    // [T, stream_mixes]
  float* weights = nullptr;  // [T, kernels::StreamWeights(count)] of the running term
};

// 0 for a model with one stream.
size_t StreamBufferBytes(const ModelConfig& config, int32_t max_tokens);

class ResidualStreams {
 public:
  explicit ResidualStreams(LayerContext* context);

  // All of them become the embeddings in hidden.
  bool Begin() const;
  // hidden = what a term reads. last: what the head reads.
  bool Read(const StreamWeights& weights, bool last = false) const;
  // Adds what the term has left in hidden, by the weights of the last Read.
  bool Write() const;

 private:
  LayerContext* context_;
  const StreamSpec& spec_;
  const StreamBuffers buffers_;
};

}  // namespace dunlin::engine
