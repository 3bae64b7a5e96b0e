// SPDX-License-Identifier: Apache-2.0
// The projections of a decoder that low-rank adapters may change, and which rows of them each module of a checkpoint
// holds. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/spec/weight_slot.h"

namespace dunlin::engine {

// Products of every layer that has them: LayerWeights::qkv, attention_gate, attention_out, mlp_up and mlp_down; `in`,
// `gates` and `out` of its recurrent mixer; query_down, query and kv_down of its latent attention; its router, the rows
// that experts read in place of the layer's, and what becomes of their sum; its experts' products and the shared one's.
// kHead is the model's, PrecisionWeights::head, and counts as layer 0's.
enum class Projection : uint8_t {
  kQkv,
  kAttentionGate,
  kAttentionOut,
  kMlpUp,
  kMlpDown,
  kMixerIn,
  kMixerGates,
  kMixerOut,
  kQueryDown,
  kLatentQuery,
  kKvDown,
  kRouter,
  kLatentIn,
  kLatentOut,
  kExpertUp,
  kExpertDown,
  kSharedUp,
  kSharedDown,
  kHead
};
inline constexpr size_t kNumProjections = 19;

// Whether a layer has one for each expert.
constexpr bool IsOfExperts(Projection projection) {
  return projection == Projection::kExpertUp || projection == Projection::kExpertDown;
}

// Rows of a module's matrix that are rows of a projection: row `row` of the projection's is the module's row
// source_row + (row - row_begin), in the order of the checkpoint unless the rows rotate.
struct ModuleRows {
  int64_t row_begin = 0;
  int64_t num_rows = 0;
  int64_t source_row = 0;
  int64_t scaled_rows = 0;  // rows of the projection before this one are multiplied by `scale`
  float scale = 1.0F;
};

// How an adapter of all experts of a layer has the rows of one of them.
enum class StackRows : uint8_t {
  kInOrder,
  kAlternating,  // those of gate and up projections in turns (GPT-OSS)
  kTransposed,   // as the columns of its first matrix: PEFT takes the stack's matrices for transposed ones (Llama 4)
};

// A module's rows of one projection. A module whose matrix lies in several has one for each, with the same name.
struct AdaptableModule {
  // As in the checkpoint, without its prefix: "layers.0.self_attn.q_proj", "blk.0.attn_q". Of the experts of a layer
  // together as transformers calls their parameter, "layers.0.mlp.experts.gate_up_proj".
  std::string name;
  Projection projection = Projection::kQkv;
  WeightSlot slot = WeightSlot::kQkv;  // of that projection in that layer
  int32_t layer = 0;
  int32_t expert = -1;      // IsOfExperts: whose matrix it is; -1: those of all
  int32_t num_experts = 0;  // of a module of all experts, whose features are those of one; else 0
  StackRows stack_rows = StackRows::kInOrder;
  int64_t in_features = 0;
  int64_t out_features = 0;      // of the module
  std::vector<ModuleRows> rows;  // in the order of row_begin
  // Of each head_rows of its first rotated_rows rows rotary_dim, even, from rotary_begin on stand in pairs of
  // neighbours in the checkpoint, and in two halves in the projection; head_rows 0: all rows keep their places.
  int64_t head_rows = 0;
  int64_t rotary_begin = 0;
  int64_t rotary_dim = 0;
  int64_t rotated_rows = 0;

  bool is_stack() const { return num_experts > 0; }
  // Where the checkpoint has a row of the module; of a module of all experts, where an adapter has an expert's.
  int64_t StoredRow(int64_t row) const {
    if (stack_rows == StackRows::kAlternating) return 2 * (row % (out_features / 2)) + row / (out_features / 2);
    if (head_rows == 0 || row >= rotated_rows) return row;
    const int64_t rotated = row % head_rows - rotary_begin;
    if (rotated < 0 || rotated >= rotary_dim) return row;
    const int64_t half = rotary_dim / 2;
    return row - rotated + 2 * (rotated % half) + rotated / half;
  }
};

struct AdaptableModules {
  std::vector<AdaptableModule> modules;
  std::vector<std::string> prefixes;  // that may precede a name in a PEFT adapter: the checkpoint's and its family's
  bool gguf = false;                  // the model was read from a GGUF file
};

}  // namespace dunlin::engine
