// SPDX-License-Identifier: Apache-2.0
// A layer's experts: hidden += sum over a row's experts of weight * Down(f(Up(norm(hidden)))). A row appears once for
// each expert that it takes; the appearances, grouped by expert, go through two grouped products, and each row then
// adds what its experts gave, those in ascending order and the shared one last, so that its sum depends on the row
// alone; where the model has a norm after the MLP, that sum goes through it. Which rows an expert has stays on the
// device. With ExpertSpec::latent_dim, not with such a norm, the experts but the shared one read In(norm(hidden)), and
// hidden takes Out of their sum. With ExpertSpec::scaled_inputs a row's weight multiplies what its expert reads
// instead.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/layers/expert_buffers.h"
#include "engine/layers/mlp.h"

namespace dunlin::engine {

class Experts {
 public:
  // [rows, hidden_dim], with what Experts places: the rows that the experts read, and then their sum in place of those.
  float* normed_rows() const { return buffers_.normed; }

  Experts(LayerContext* context, const LayerWeights& weights);

  static bool IsIn(const ModelConfig& config, int32_t layer) { return config.experts.in_layer(layer); }

  // Reads hidden: the rows' norm and their experts.
  bool Begin();
  // Adds to hidden, which others may have changed since.
  bool Run();

  // Of a layer that has an MLP, too: chooses by hidden through one norm, computes it through another, and leaves the
  // sum of the experts in normed_rows().
  bool SumApart(const NormWeights& router_norm, const NormWeights& experts_norm) const;

 private:
  bool Route() const;
  // ExpertBuffers::latent from the normed rows, and from the experts' sum in it to hidden.
  bool EnterLatent();
  bool LeaveLatent(float* sum) const;
  // The same of a divided model: the rank's columns of the sum, and what the ranks do with all of them.
  bool RunDivided();
  // From or to contiguous rows of the rank's columns.
  // The sum of a row's experts, [rows, sum_columns()]: added to out or, with from_zero, in its place.
  bool RunExperts(float* out, bool from_zero) const;
  // What an expert gives: expert_dim or, of a divided model, the rank's part of it.
  int32_t sum_columns() const;
  bool Gather(const Linear& up) const;
  // ExpertBuffers::scaled from the normed rows.
  bool ScaleInputs() const;
  bool RunUp(const Linear& up, const Linear& down) const;
  // Of the products whose first experts' are given: whether adapters of the batch add to them, and what they add.
  static bool IsAdapted(const Linear& up, const Linear& down) { return up.IsAdapted() || down.IsAdapted(); }
  bool AddAdapters(Projection projection, const Linear& of_first, const float* in, const Columns& out) const;
  bool AddUpAdapters(const Linear& up, const Columns& out) const;
  // Added to out.
  bool RunShared(float* out);
  // What the grouped products of `weights` have in common, without an output.
  kernels::GroupedGemmParams Params(const std::vector<LinearWeights>& weights) const;
  // Rows of all experts.
  int32_t num_choices() const { return context_->rows.count * context_->config.experts.routing.num_chosen; }

  LayerContext* context_;
  const LayerWeights& weights_;
  const ExpertBuffers buffers_;
  const float* read_rows_;  // [rows, expert_dim], which the experts but the shared one read
};

}  // namespace dunlin::engine
