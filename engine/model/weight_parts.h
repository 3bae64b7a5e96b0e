// What a model needs of its checkpoint: one part per tensor, with the shape it must have and the place it goes to.
// The same list serves loading, random weights and inspection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/architecture.h"
#include "engine/model/model_config.h"
#include "engine/model/tensor_source.h"

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
  int32_t layer;  // 0 where the slot is not per layer
  bool is_bias;
  ShardAxis axis;
  bool transposed;             // the tensor is [in_features, out_features]
  std::string tensor;          // its full name
  std::vector<int64_t> shape;  // that it must have: [rows, columns], or [rows] for norms and biases
  int64_t row_begin;           // in the slot's matrix or vector
  int64_t num_rows;
  int64_t source_row;   // first of these rows in the tensor; not 0 only where several parts share one tensor
  int64_t scaled_rows;  // the first rows are multiplied by `scale`; 0 for none
  float scale;
  PartScales scales = {};

  bool is_vector() const { return is_bias || IsNorm(slot); }
};

// The prefix (one of the architecture's) under which `source` has the embedding; the first one when there is none.
std::string FindPrefix(const Architecture& architecture, const TensorSource& source);

// Every tensor of the model, in a fixed order.
std::vector<WeightPart> ListWeightParts(const Architecture& architecture, const ModelConfig& config,
                                        const std::string& prefix);

// Points the norms of checkpoints that were converted from TensorFlow at the names those keep: gamma and beta.
void AcceptOldNormNames(const TensorSource& source, std::vector<WeightPart>* parts);

// Points parts at the architecture's other names where those are what `source` has.
void AcceptOtherNames(const Architecture& architecture, const TensorSource& source, std::vector<WeightPart>* parts);

// Every part is there, has its shape and can be loaded. NOT_FOUND names up to 4 missing tensors and counts the rest;
// INVALID_ARGUMENT names tensor, shape or dtype, and what was expected.
absl::Status CheckParts(const std::vector<WeightPart>& parts, const TensorSource& source);

// One line that names up to 8 tensors that no part uses and that are not known buffers; empty when there are none.
std::vector<std::string> UnusedTensorWarnings(const Architecture& architecture, const std::vector<WeightPart>& parts,
                                              const TensorSource& source);

// Numbers that the parts hold together.
int64_t CountParameters(const std::vector<WeightPart>& parts);

}  // namespace dunlin::engine
