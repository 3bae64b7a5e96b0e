// SPDX-License-Identifier: Apache-2.0
// What a launcher of recurrent layers' operations checks of its parameters, those of an empty call included.
#pragma once

#include "kernels/api/ssm_scan.h"
#include "kernels/cuda/recurrent/scan_rules.h"

namespace dunlin::kernels::cuda {

inline bool ValidState(const StateSlots& state, int64_t floats) {
  return state.pool != nullptr && state.slots != nullptr && state.slot_stride >= floats;
}

inline bool Valid(const CausalConvParams& params) {
  if (params.num_sequences < 0 || params.channels < 1 || params.taps < 2 || params.taps > kConvTapsMax ||
      params.in_stride < params.channels) {
    return false;
  }
  if (params.num_sequences == 0) return true;
  return params.in != nullptr && params.weight != nullptr && params.sequences != nullptr && params.out != nullptr &&
         ValidState(params.state, int64_t{params.taps - 1} * params.channels);
}

inline bool Valid(const DeltaScanParams& params) {
  const DeltaShape& shape = params.shape;
  const int64_t gates = (params.steps == nullptr ? 2 : 1) * int64_t{shape.value_heads};
  if (params.gates_stride != 0 && params.gates_stride < gates) return false;
  if (params.beta_scale != 1.0F && params.beta_scale != 2.0F) return false;
  if (params.decay_bound > 0.0F || (params.decay_bound < 0.0F && params.steps == nullptr)) return false;
  if (params.num_sequences < 0 || shape.key_heads < 1 || shape.value_heads < 1 ||
      shape.value_heads % shape.key_heads != 0 || shape.key_dim < 1 || shape.value_dim < 1 ||
      (params.steps != nullptr && shape.key_dim > kChannelDecaysMax)) {
    return false;
  }
  if (params.num_sequences == 0) return true;
  return params.in != nullptr && params.gates != nullptr && params.rate != nullptr && params.dt_bias != nullptr &&
         params.sequences != nullptr && params.out != nullptr &&
         ValidState(params.state, shape.value_heads * DeltaHeadFloats(shape));
}

inline bool Valid(const SsmScanParams& params) {
  const SsmShape& shape = params.shape;
  if (params.num_sequences < 0 || shape.num_groups < 1 || shape.num_heads < 1 ||
      shape.num_heads % shape.num_groups != 0 || shape.head_dim < 1 || shape.state_dim < 1) {
    return false;
  }
  if (params.step_stride < shape.num_heads || !(params.step_min >= 0.0F && params.step_min <= params.step_max)) {
    return false;
  }
  if (params.num_sequences == 0) return true;
  return params.in != nullptr && params.step != nullptr && params.rate != nullptr && params.step_bias != nullptr &&
         params.skip != nullptr && params.sequences != nullptr && params.out != nullptr &&
         ValidState(params.state, shape.num_heads * SsmHeadFloats(shape));
}

inline bool Valid(const GatedGroupNormParams& params) {
  if (params.num_rows < 0 || params.num_groups < 1 || params.columns < 1 || !(params.epsilon > 0.0F) ||
      params.gate_stride < int64_t{params.num_groups} * params.columns || params.weight_stride < 0 ||
      (params.sigmoid_gate && params.gate_first)) {
    return false;
  }
  if (params.num_rows == 0) return true;
  return params.in != nullptr && params.gate != nullptr && params.weight != nullptr && params.out != nullptr;
}

inline bool Valid(const RowGateParams& params) {
  if (params.num_rows < 0 || params.columns < 1 || params.width < 1 || params.columns % params.width != 0) return false;
  return params.num_rows == 0 || (params.values != nullptr && params.gate != nullptr);
}

}  // namespace dunlin::kernels::cuda
