// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/predictor.h"

#include "engine/layers/classifier.h"
#include "engine/layers/decoder_layer.h"
#include "engine/layers/embedding.h"
#include "engine/layers/forward_pass.h"
#include "engine/layers/norm.h"
#include "engine/layers/rank_rows.h"

namespace dunlin::engine {

using kernels::DeviceOps;

Predictor::Predictor(const ModelConfig& config, const PrecisionWeights& weights, const ExecutionProfile& profile,
                     const PassInputs& inputs, const LayerBuffers& buffers)
    : context_{.config = config,
               .weights = weights,
               .profile = profile,
               .inputs = inputs,
               .buffers = buffers,
               .scaling = nullptr,
               .observer = nullptr,
               .kv_layouts = KvLayoutsOf(buffers, profile.precision)} {}

const PredictorWeights& Predictor::own() const {
  return context_.weights.layers[static_cast<size_t>(context_.config.num_layers)].predictor;
}

// [rows, 2 * hidden_dim] of the two normed halves, then [rows, hidden_dim] of one of them: of a divided model, each
// rank's own.
bool Predictor::FillRows() {
  const int32_t columns = context_.config.hidden_dim;
  context_.rows = AllRows(context_.config, context_.buffers, context_.inputs);
  context_.layer = context_.config.num_layers;
  float* const hidden = context_.rows.hidden;
  const int32_t count = context_.rows.count;
  float* const both = context_.buffers.predictor;
  float* const half = both + 2 * int64_t{context_.buffers.max_tokens} * columns;
  const kernels::CopyRowsParams gather{.in = context_.buffers.predictor_hidden,
                                       .in_stride = columns,
                                       .rows = context_.inputs.hidden_rows,
                                       .out = half,
                                       .num_rows = count,
                                       .columns = columns};
  const auto join = [&](const float* from, int32_t place) {
    const kernels::CopyColumnsParams copy{.in = from,
                                          .in_stride = columns,
                                          .in_block_stride = 0,
                                          .out = both + int64_t{place} * columns,
                                          .out_stride = 2 * int64_t{columns},
                                          .out_block_stride = columns,
                                          .num_rows = count,
                                          .num_blocks = 1,
                                          .columns = columns};
    return context_.Run(&DeviceOps::copy_columns, copy, "rows of a predictor");
  };
  const auto norm = [&](const NormWeights& weights, float* from) {
    context_.rows.hidden = from;
    const bool ran = Norm(&context_, weights).Run("norm of a predictor", half);
    context_.rows.hidden = hidden;
    return ran;
  };
  return Embedding(&context_).Run() && norm(own().embedding_norm, hidden) && join(half, 0) &&
         context_.Run(&DeviceOps::copy_rows, gather, "hidden rows of a predictor") && norm(own().hidden_norm, half) &&
         join(half, 1) && RunInput(both);
}

// Ranks have some columns of the stream, and all of them have read the embeddings in it before any of them changes it.
bool Predictor::RunInput(const float* both) {
  static constexpr char kOp[] = "input of a predictor";
  const Linear in(&context_, own().in, kUnobservedInput);
  float* const hidden = context_.rows.hidden;
  if (!in.Quantize(kOp, both, context_.rows.count)) return false;
  if (!context_.divided()) return in.Run(kOp, nullptr, hidden, context_.rows.count);
  const int32_t columns = context_.config.hidden_dim;
  return Meet(&context_, kOp) && in.Run(kOp, OwnColumns(context_, hidden)) &&
         ShareColumns(&context_, kOp, hidden, columns, context_.config.part(columns), context_.rows.count);
}

absl::Status Predictor::StoreKv() {
  return StatusOf(FillRows() && DecoderLayer(&context_).AttentionInputs());
}

absl::Status Predictor::Run(float* out) {
  if (!FillRows()) return context_.Failure();
  DecoderLayer layer(&context_);
  return StatusOf(layer.AttentionInputs() && layer.AttentionAndMlp() && KeepOutput(out));
}

bool Predictor::KeepOutput(float* out) {
  if (!context_.config.predictor.unnormed)
    return Norm(&context_, own().final_norm).Run("final norm of a predictor", out);
  return CopyHidden(&context_, "output of a predictor", out);
}

absl::Status Predictor::RunHead(int32_t first, int32_t count) {
  context_.layer = -1;  // its rows run as decode
  // Of several ranks the first one may still read the logits of the rows before.
  if (first > 0 && !Meet(&context_, "head")) return context_.Failure();
  const float* rows = context_.rows.hidden + int64_t{first} * context_.config.hidden_dim;
  const LinearWeights& head = context_.config.predictor.own_head ? own().head : context_.weights.head;
  return StatusOf(Head(&context_).Run(own().final_norm, head, {rows, nullptr, count}, -1));
}

}  // namespace dunlin::engine
