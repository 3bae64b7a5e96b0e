// SPDX-License-Identifier: Apache-2.0
// The names that a checkpoint gives the weights of a model.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model/spec/weight_slot.h"

namespace dunlin::engine {

// Which rows of a fused matrix a tensor holds. kQkvByHead: all of them, interleaved by head of K: the heads of Q
// that share the first head of K, that, and its head of V, then those of the next (GPT-NeoX, Falcon). kExperts and
// kSharedGate: of a router. kLatentAndRotary: all of WeightSlot::kKvDown, whose rotated rows are the tensor's last.
// kQueryOfPairs and kGateOfPairs: one tensor has for each head rows of Q, then as many of the output gate (Qwen3-Next).
// kKeyAndValue: rows of K that stand for V, too, in layers with AttentionSpec::keys_as_values, which have no kKey.
// kDeltaQkv, kDeltaZ, kDeltaQkvzByHead: of kDeltaIn; kDeltaQuery, kDeltaKey, kDeltaValue: of that and of kDeltaConv;
// kBeta, kAlpha, kBetaAlphaByHead, and with DeltaSpec::gate_rank kDecayRank and kOutputGateRank: of kDeltaGates. By
// head: interleaved by key head, with all value heads of each. kMambaBlocks: all of kMambaIn, whose blocks have factors
// (ProductFactors). kCurvePositive to kCurveEpsilon: a number each of kMlpCurve, the first two before their softplus.
enum class FusedPart : uint8_t {
  kAll,
  kQuery,
  kKey,
  kValue,
  kKeyAndValue,
  kGate,
  kUp,
  kQkvByHead,
  kExperts,
  kSharedGate,
  kLatentAndRotary,
  kQueryOfPairs,
  kGateOfPairs,
  kDeltaQkv,
  kDeltaZ,
  kDeltaQkvzByHead,
  kDeltaQuery,
  kDeltaKey,
  kDeltaValue,
  kBeta,
  kAlpha,
  kBetaAlphaByHead,
  kDecayRank,
  kOutputGateRank,
  kMambaBlocks,
  kCurvePositive,
  kCurveNegative,
  kCurveBeta,
  kCurveEpsilon
};

// A tensor's name and slot: `name` + `weight` and, where the config has a bias, `name` + `bias`.
struct WeightName {
  WeightSlot slot;
  FusedPart part;
  const char* name;         // '#' stands for the layer's index, '@' for the expert's or head's
  bool prefixed = true;     // one of CheckpointNames::prefixes precedes it
  bool transposed = false;  // stored [in_features, out_features] (GPT-2's Conv1D)
  const char* weight = ".weight";
  const char* bias = ".bias";
};

// A second name that some checkpoints use: a tensor that is not found is looked up with `name` replaced by `alias`.
struct NameAlias {
  const char* name;
  const char* alias;
};

// How a checkpoint stacks the experts of a layer, where it does.
enum class ExpertLayout : uint8_t {
  kRows,           // [num_experts, out_features, in_features]
  kInterleaved,    // as InterleavedExperts
  kColumns,        // [num_experts, in_features, out_features]: the same without alternating rows (Llama 4)
  kColumnsOrRows,  // as the tensors' dimensions say (Qwen 3 VL: published, and as transformers 5 has it)
};

// All of it has static storage. Lists may hold more than a model has: a config says which weights exist (HasSlot).
struct CheckpointNames {
  std::span<const char* const> prefixes;  // tried in order until the embedding is found; >= 1
  std::span<const WeightName> weights;
  std::span<const char* const> ignored = {};  // suffixes of tensor names that are buffers, not weights
  std::span<const NameAlias> aliases = {};
  ExpertLayout expert_layout = ExpertLayout::kRows;
  // In place of `weights` where the checkpoint has tensors that stack the experts under these names; empty: none does.
  std::span<const WeightName> stacked = {};
};

}  // namespace dunlin::engine
