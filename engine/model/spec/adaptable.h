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
// `gates` and `out` of its recurrent mixer.
enum class Projection : uint8_t {
  kQkv,
  kAttentionGate,
  kAttentionOut,
  kMlpUp,
  kMlpDown,
  kMixerIn,
  kMixerGates,
  kMixerOut
};
inline constexpr size_t kNumProjections = 8;

// Rows of a module's matrix that are rows of a projection: row `row` of the projection's is the module's row
// source_row + (row - row_begin), in the order of the checkpoint unless the rows rotate.
struct ModuleRows {
  int64_t row_begin = 0;
  int64_t num_rows = 0;
  int64_t source_row = 0;
  int64_t scaled_rows = 0;  // rows of the projection before this one are multiplied by `scale`
  float scale = 1.0F;
};

// A module's rows of one projection. A module whose matrix lies in several has one for each, with the same name.
struct AdaptableModule {
  std::string name;  // as in the checkpoint, without its prefix: "layers.0.self_attn.q_proj", "blk.0.attn_q"
  Projection projection = Projection::kQkv;
  WeightSlot slot = WeightSlot::kQkv;  // of that projection in that layer
  int32_t layer = 0;
  int64_t in_features = 0;
  int64_t out_features = 0;      // of the module
  std::vector<ModuleRows> rows;  // in the order of row_begin
  // Of each head_rows of its first rotated_rows rows the first rotary_dim, even, stand in pairs of neighbours in the
  // checkpoint, and in two halves in the projection; head_rows 0: all rows keep their places.
  int64_t head_rows = 0;
  int64_t rotary_dim = 0;
  int64_t rotated_rows = 0;

  // Where the checkpoint has a row of the module.
  int64_t StoredRow(int64_t row) const {
    if (head_rows == 0 || row >= rotated_rows || row % head_rows >= rotary_dim) return row;
    const int64_t in_head = row % head_rows;
    const int64_t half = rotary_dim / 2;
    return row - in_head + 2 * (in_head % half) + in_head / half;
  }
};

struct AdaptableModules {
  std::vector<AdaptableModule> modules;
  std::vector<std::string> prefixes;  // that may precede a name in a PEFT adapter: the checkpoint's and its family's
  bool gguf = false;                  // the model was read from a GGUF file
};

}  // namespace dunlin::engine
