// SPDX-License-Identifier: Apache-2.0
// A linear layer, y = x W^T + bias. Its input is LayerContext::activation: rows in the format that W multiplies, which
// a norm, an activation or Quantize has left there.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/layers/layer_context.h"

namespace dunlin::engine {

class Linear {
 public:
  // input: of InputIndex or HeadInputIndex, for the scales of FP8 and for observers.
  Linear(LayerContext* context, const LinearWeights& weights, int32_t input)
      : context_(context), weights_(&weights), input_(input) {}

  int32_t columns() const { return static_cast<int32_t>(weight().in_features); }
  const kernels::PackedWeight& weight() const { return weights_->weight; }
  // Whether the input of `other` is this one's, too.
  bool SharesInputFormat(const kernels::Activation& other) const;

  // `data` as the layer's input, with room for a batch or, where that is more, for num_rows.
  kernels::Activation InputIn(void* data, int32_t num_rows) const;
  // Whether adapters of the batch add to it: then whoever fills its input says where the FP32 rows are
  // (LayerContext::input_rows), and no operation after it is fused with it.
  bool IsAdapted() const;
  // Where they are to be kept, and that this is where they are; null where it is not adapted.
  float* KeepInput() const;
  // LayerContext::activation as the same, to be filled.
  kernels::Activation* Input(int32_t num_rows) const;
  // Fills it from contiguous FP32 rows, which an observer sees.
  bool Quantize(const char* op, const float* in, int32_t num_rows) const;

  // out = x W^T + bias + residual for num_rows contiguous rows, and what their adapters add. residual is null or out.
  bool Run(const char* op, const float* residual, float* out, int32_t num_rows) const;
  // The same without a residual, to some columns of the rows of the running layer.
  bool Run(const char* op, const Columns& out) const;
  // hidden += x W^T + bias for the rows of the running layer, normalised first where the model has post norms; then
  // the sum may take a factor, [1] in device memory.
  bool AddToResidual(const char* op, const NormWeights& post_norm, const float* factor = nullptr) const;

  // Without bias, residual and output.
  kernels::GemmParams Params(int32_t num_rows) const;
  const float* bias() const { return weights_->bias; }

  // Of the model's head, whose products of kept rows [first, first + count) are rows of out: adds what the rows'
  // adapters add.
  bool AddHeadAdapters(int32_t first, int32_t count, const Columns& out) const;

 private:
  // Of a divided model: the rank's columns of the sum.
  bool AddColumns(const char* op, const NormWeights& post_norm, const float* factor) const;
  // The product, in place of what is in `own` or added to it.
  bool AddFused(const char* op, bool from_zero, const Columns& own) const;
  bool AddUnfused(const char* op, bool from_zero, const Columns& own) const;
  bool Gemm(const char* op, const float* bias, const float* residual, float* out, int32_t num_rows) const;
  bool RunUnfused(const char* op, const float* residual, float* out, int32_t num_rows) const;
  // The projection of a layer that this is, where it is one and adapters of the batch have it.
  std::optional<Projection> adapted() const;
  // Adds the products of the rows' adapters, where this is a projection of a layer.
  bool AddAdapters(const Columns& out) const;
  bool RunAdapters(int32_t num_uses, const Columns& out) const;

  LayerContext* context_;
  const LinearWeights* weights_;
  int32_t input_;
};

}  // namespace dunlin::engine
