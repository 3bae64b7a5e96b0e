// SPDX-License-Identifier: Apache-2.0
// The tensors that a model needs from its checkpoint, with their expected shapes and destinations. The same list drives
// loading, random weights and inspection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/checkpoint/expert_tensors.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/spec/checkpoint_names.h"
#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

// The scales of an FP8 part, from FindScales. Row n of the tensor, element k: weight[n / rows_per_scale][k / block].
struct PartScales {
  const TensorInfo* weight = nullptr;  // null: the part is not FP8
  const TensorInfo* input = nullptr;   // the scale of the layer's input, or null
  int64_t rows_per_scale = 0;
  int32_t block = 0;  // 0: one scale for all k
};

struct WeightPart {
  WeightSlot slot;
  int32_t layer;      // 0 where the slot is not per layer
  int32_t index = 0;  // of the expert or head, where the slot is per one
  bool is_bias;
  bool transposed;             // the tensor is [in_features, out_features]
  std::string tensor;          // full name
  std::vector<int64_t> shape;  // expected: [rows, columns], or [rows] for norms and biases
  int64_t row_begin;           // destination row in the slot's matrix or vector
  int64_t num_rows;
  int64_t source_row;   // first of the rows in the tensor; nonzero only where several parts share one tensor
  int64_t scaled_rows;  // the first rows are multiplied by `scale`; 0 for none
  float scale;
  PartScales scales = {};
  std::optional<kernels::CodeTraits> codes = {};  // that the tensor is stored as, from FindCodes

  bool is_vector() const { return is_bias || IsVector(slot); }
  WeightPlace place() const { return {slot, layer, index}; }
};

// The architecture's prefix under which `source` has the embedding, of tokens or patches, or the final norm; its first
// prefix when none fits.
std::string FindPrefix(const CheckpointNames& names, const TensorSource& source);

// Takes CheckpointNames::stacked where `source` has one of their stacks.
void SelectNames(const ModelConfig& config, const std::string& prefix, const TensorSource& source,
                 CheckpointNames* names);

// Every tensor of the model, in a fixed order.
std::vector<WeightPart> ListWeightParts(const CheckpointNames& names, const ModelConfig& config,
                                        const std::string& prefix);

// The stacked tensors that a checkpoint may have in place of one for each expert: an expert's name without its index.
std::vector<ExpertStack> ListExpertStacks(const CheckpointNames& names, const ModelConfig& config,
                                          const std::string& prefix);

// The same for the key and value matrices of the heads (kKeyUp, kValueUp); none where the architecture has both in one
// tensor.
std::vector<ExpertStack> ListHeadStacks(const CheckpointNames& names, const ModelConfig& config,
                                        const std::string& prefix);

// The rows of each head in such a tensor, head by head: plain_dim rows of its keys, then value_dim of its values. Empty
// where the architecture has stacks of them.
std::vector<TensorSlice> ListHeadSlices(const CheckpointNames& names, const ModelConfig& config,
                                        const std::string& prefix);

// The tensors of latent attention that are cut or whose rows change places: as FP8 they would not keep their scales.
std::vector<std::string> ListRearranged(const CheckpointNames& names, const ModelConfig& config,
                                        const std::string& prefix);

// Whether a part's rows or columns are those of heads of V, and zeros follow each of them
// (AttentionSpec::stored_value_dim).
inline bool IsOfValues(const ModelConfig& config, const WeightPart& part) {
  if (config.attention.stored_value_dim == 0 || part.is_vector()) return false;
  const HeadShape heads = config.attention.heads(part.layer);
  const int64_t first = (int64_t{heads.num_heads} + heads.num_kv_heads) * heads.head_dim;
  return part.slot == WeightSlot::kAttentionOut || (part.slot == WeightSlot::kQkv && part.row_begin >= first);
}

// Renames norms to .gamma and .beta where `source` has those (checkpoints converted from TensorFlow).
void ApplyOldNormNames(const TensorSource& source, std::vector<WeightPart>* parts);

// Renames parts by the architecture's aliases where `source` has the alias only.
void ApplyAliases(const CheckpointNames& names, const TensorSource& source, std::vector<WeightPart>* parts);

// Checks that every part exists with its shape and a loadable dtype. NOT_FOUND names up to 4 missing tensors and counts
// the rest; INVALID_ARGUMENT names the tensor, its shape or dtype, and what was expected.
absl::Status CheckParts(const std::vector<WeightPart>& parts, const TensorSource& source);

// Fills WeightPart::codes of the matrices whose codes can be packed: those that are neither transposed nor scaled.
// REQUIRES: CheckParts is OK.
void FindCodes(const TensorSource& source, std::vector<WeightPart>* parts);

// A line for each reason why quantised matrices of the parts have no codes; it counts them and names the first.
// own_precision: whether others are served as their integer codes, beside which FP8 becomes BF16. REQUIRES: CheckParts
// is OK.
std::vector<std::string> DequantizedWarnings(const TensorSource& source, const std::vector<WeightPart>& parts,
                                             bool own_precision);

// Elements of all parts.
int64_t CountParameters(const std::vector<WeightPart>& parts);

// Elements of the parts that one token goes through: of the experts of a layer as many as a token takes, of the table
// of per-layer embeddings, of which it reads a row, none.
int64_t CountActiveParameters(const ModelConfig& config, const std::vector<WeightPart>& parts);

}  // namespace dunlin::engine
