// SPDX-License-Identifier: Apache-2.0
// The device memory that a forward pass computes in. Plain data that borrows the runtime's buffers (StepBuffers).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/parallel/rank_group.h"
#include "engine/request/kv_groups.h"
#include "kernels/api/device.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::engine {

// T = max_tokens, K = max_kept_rows, C = routing.num_chosen. Rows are contiguous; pointers are null where the model has
// no use for a buffer.
struct LayerBuffers {
  kernels::Device* device = nullptr;
  int32_t max_tokens = 0;                       // rows of a batch
  int32_t max_kept_rows = 0;                    // KeptRows::count where rows are copied
  int32_t max_context_tokens = 0;               // of a sequence
  bool kv_fp8 = false;                          // of KvLayoutOf: how the pool is divided into pages
  std::span<const kernels::KvShape> kv_shapes;  // of pages, by KvPlace::shape; at most kMaxKvShapes
  std::span<const KvPlace> kv_places;           // where keys and values of a layer lie: KvPlacesOf's
  bool deterministic = true;                    // GemmParams::deterministic

  void* kv_pool = nullptr;
  int32_t num_pages = 0;          // of the pool
  float* hidden = nullptr;        // [T, hidden_dim] the residual stream
  float* qkv = nullptr;           // [T, ModelConfig::max_mixer_inputs]; the attention's rows come first. Of an encoder
                                  // of images before its layers the patches, after them its rows
  float* attention = nullptr;     // [T, ModelConfig::max_mixer_outputs]
  float* gate = nullptr;          // [T, num_heads * head_dim] of AttentionSpec::output_gate
  void* mlp = nullptr;            // [T, up_features] floats, or the GEMM input of the down projection; of experts and
                                  // layer inputs, too
  float* layer_inputs = nullptr;  // [T, layer_input_features]
  float* term = nullptr;          // [T, hidden_dim] an output that is normalised before it is added to the residual
  void* activation = nullptr;     // GEMM input of T rows, or of all rows of the experts
  size_t activation_bytes = 0;
  float* kept_rows = nullptr;         // [K, hidden_dim], then [K, num_heads * head_dim]: KeepRows
  void* experts = nullptr;            // of ExpertBufferBytes
  void* latent = nullptr;             // of LatentBufferBytes
  void* indexer = nullptr;            // of IndexerBufferBytes
  void* compressed = nullptr;         // of CompressedBufferBytes
  void* streams = nullptr;            // of StreamBufferBytes
  void* delta = nullptr;              // of DeltaBufferBytes
  void* mamba = nullptr;              // of MambaBufferBytes
  float* predictor = nullptr;         // of PredictorBufferFloats
  float* predictor_hidden = nullptr;  // [HiddenRows::num_rows, hidden_dim] final hidden rows of the last steps
  float* state = nullptr;             // [state slots, ModelConfig::state_floats]
  float* unfused = nullptr;           // [T, max(hidden_dim, max_ffn_dim)] between two steps of a module, or [T * C,
                                      // ExpertSpec::ffn_dim]; non-null runs eager
  float* adapter_input = nullptr;     // [T, max(hidden_dim, ffn_dim)] a product's input before it is rounded; of the
                                      // experts' [T * C, ...]
  float* adapter_hidden = nullptr;    // [T or T * C, ranks of a projection] AddLowRankParams::scratch
  float* rotary = nullptr;            // [rotary count, batch tokens, rotary dim] cos and sin of the batch's positions
  const float* position_constants = nullptr;  // ModelConfig::position_constants
  float* logits = nullptr;                    // [kMaxLogitRows, vocab_size]
  void* workspace = nullptr;                  // of attention
  size_t workspace_bytes = 0;
  std::atomic<uint64_t>* progress = nullptr;  // advanced after each operation, by the thread of the pass alone
  // Of a divided model (rank_rows.h): hidden, layer_inputs, term, the hidden rows of kept_rows, logits and `gathered`
  // are one memory of all ranks, the rest is the rank's. Where ranks are linked, each has a copy of these.
  RankGroup* ranks = nullptr;                                               // null: the model is not divided
  kernels::RankLinks* links = nullptr;                                      // null: ranks share their memory
  std::array<const LayerBuffers*, kernels::kMaxLinkedRanks> of_ranks = {};  // of linked ranks, by rank
  float* kept_queries = nullptr;        // [K, num_heads * head_dim]; null: they follow the rows of kept_rows
  std::array<float*, 2> gathered = {};  // rows of all ranks' columns: [T, output_features or ffn_dim], [T * C, ...]
  float* rank_columns = nullptr;        // the rank's own columns of them, contiguous
  float* rank_sum = nullptr;            // [T, its part of hidden_dim] a sum of experts, or an eager term
};

}  // namespace dunlin::engine
