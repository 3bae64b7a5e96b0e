// SPDX-License-Identifier: Apache-2.0
// The layer of a model that predicts further tokens (multi-token prediction): of the position p it takes the model's
// final hidden row there and the embedding of the token at p + 1, and its head predicts the token at p + 2:
//   x = In([EmbeddingNorm(embedding), HiddenNorm(hidden)]);  logits = Head(FinalNorm(Layer(x)))
// Layer is a decoder layer with keys and values of its own in the sequence's pages, at p; the head is the model's
// unless PredictorSpec says otherwise. A further token is predicted from FinalNorm(Layer(x)) or, with
// PredictorSpec::unnormed, Layer(x) in place of the hidden row. Source: DeepSeek-V3 Technical Report, section 2.2;
// transformers and vLLM, models qwen3_next_mtp and deepseek_mtp. A Predictor lives for one batch on the thread of its
// rank. It allocates nothing unless an operation fails.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/layers/layer_context.h"

namespace dunlin::engine {

// Floats of LayerBuffers::predictor.
constexpr int64_t PredictorBufferFloats(const ModelConfig& config, int64_t max_tokens) {
  return config.num_predictors > 0 ? 3 * max_tokens * config.hidden_dim : 0;
}

class Predictor {
 public:
  // inputs: token_ids are those after the positions, hidden_rows the rows of buffers.predictor_hidden at them; neither
  // states nor adapters are read. References are borrowed for the life of the object. REQUIRES: num_predictors > 0.
  Predictor(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
            const PassInputs& inputs, const LayerBuffers& buffers);

  // Stores the keys and values of all rows. INTERNAL names the operation that failed.
  absl::Status StoreKv();
  // The same, and what takes the hidden rows' place into `out`, [num_tokens, hidden_dim] in device memory.
  absl::Status Run(float* out);
  // Logits of the rows [first, first + count) into LayerBuffers::logits, from its row 0. REQUIRES: Run has succeeded,
  // count <= kMaxLogitRows.
  absl::Status RunHead(int32_t first, int32_t count);

 private:
  const PredictorWeights& own() const;
  // The layer's input into the rows.
  bool FillRows();
  bool RunInput(const float* both);
  bool KeepOutput(float* out);
  absl::Status StatusOf(bool ran) const { return ran ? absl::OkStatus() : context_.Failure(); }

  LayerContext context_;
};

}  // namespace dunlin::engine
