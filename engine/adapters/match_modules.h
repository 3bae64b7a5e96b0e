// SPDX-License-Identifier: Apache-2.0
// The modules of an adapter's files matched with the model's, and their shapes checked. Nothing is read. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/adapters/adapter_file.h"
#include "engine/model/model.h"
#include "engine/model/spec/adaptable.h"

namespace dunlin::engine {

// A module of the adapter and of the model.
struct MatchedModule {
  const AdapterModule* own;
  const AdaptableModule* model;
  int32_t rank;          // of each expert
  kernels::DType dtype;  // as it is kept
  float scale;

  // Matrices of its pair: one, or one of each expert.
  int32_t count() const { return model->is_stack() ? model->num_experts : 1; }
  // Whose the i-th is; -1 where the projection is not one of experts.
  int32_t expert(int32_t i) const { return model->is_stack() ? i : model->expert; }
};

// INVALID_ARGUMENT: a module that the model does not have or that adapters cannot change, or that two of the adapter's
// name, a shape that is not the module's, a rank above max_rank or other than the config's, more ranks or parts of a
// projection than a step's buffers hold. modules and model outlive what is returned.
absl::StatusOr<std::vector<MatchedModule>> MatchModules(const Model& model, int32_t max_rank,
                                                        const std::vector<AdapterModule>& modules);

// INVALID_ARGUMENT, with file and tensor.
absl::Status RefuseMatrix(const AdapterMatrix& matrix, const std::string& why);

// "q_proj" of "layers.0.self_attn.q_proj".
std::string LastComponent(const std::string& name);

}  // namespace dunlin::engine
