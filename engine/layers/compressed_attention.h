// SPDX-License-Identifier: Apache-2.0
// Attention over a window of tokens and over entries of groups of tokens (CompressedAttentionSpec). A layer's pages
// have the keys of its window and, where it has entries, the rows that they are made of, next to them; entries lie in
// pages of another group, which stay.
#pragma once

#include "engine/layers/compressed_buffers.h"
#include "engine/layers/linear.h"

namespace dunlin::engine {

class CompressedAttention {
 public:
  CompressedAttention(LayerContext* context, const LayerWeights& weights);

  static bool IsIn(const ModelConfig& config, int32_t /*layer*/) { return config.attention.is_compressed(); }
  // The first product that reads a layer's input.
  static Linear InputOf(LayerContext* context, const LayerWeights& weights, int32_t layer);

  // From the input: queries, and behind them the token's key, into the buffer qkv; keys, rows and entries into their
  // pages; and the choice of entries.
  bool StoreKv() const;
  // From the queries: the input of `next`.
  bool Run(const Linear& next) const;

 private:
  bool Query() const;
  // Of the rows of the query's rank, which the indexer reads, too.
  bool RunOfRank(const char* op, const Linear& linear, const Columns& out) const;
  bool NormDown() const;
  // Of heads of queries, of the token's key, of index queries, of what is attended to.
  kernels::RotateHeadsParams Rotation(float* rows, int64_t stride, int32_t num_heads, int32_t head_dim) const;
  // The rows of `weights`, stored, and their entries; `offset` elements are before both.
  bool Compress(const char* op, const CompressedWeights::Entries& weights, int32_t dim, int32_t row_offset,
                int32_t entry_offset) const;
  bool Choose() const;
  bool Attend(float* out) const;
  bool MultiplyGroups(const float* heads) const;
  kernels::EntryPlace Entries(int32_t offset) const;
  int32_t rate() const { return attention_.compressed.rate(context_->layer); }
  bool chooses() const { return attention_.compressed.chooses_in(context_->layer); }

  LayerContext* context_;
  const LayerWeights& layer_;
  const CompressedWeights& weights_;
  const AttentionSpec& attention_;
  const CompressedBuffers buffers_;
};

}  // namespace dunlin::engine
