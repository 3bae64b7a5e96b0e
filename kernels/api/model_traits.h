// SPDX-License-Identifier: Apache-2.0
// What a model's layers require of a device beyond the operations that every device has. A new kind of layer adds a
// field here, and a row to DeviceOps::supports_model of the devices without it.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

struct ModelTraits {
  bool experts = false;             // route_experts, grouped_gemm, add_weighted_rows
  bool experts_beside_mlp = false;  // RouteExpertsParams::expert_scales
  bool latent_rows = false;         // copy_columns, batched_gemm, KvShape::values_in_keys
  bool key_selection = false;       // store_index_keys, select_keys, PagedAttentionParams::selection
  bool block_selection = false;     // SelectKeysParams::blocks, KeySelection::head_stride
  bool compressed_keys = false;     // compress_keys, select_entries, compressed_attention, rotate_heads
  bool residual_streams = false;    // read_streams, write_streams
  bool token_experts = false;       // RouteExpertsParams::token_experts, ActivateParams::cuts_before
  bool value_norms = false;         // RotateAndStoreKvParams::value_norm
  bool shared_kv = false;           // RotateAndStoreKvParams::query_only
  bool row_factors = false;         // NormParams::factor, AddParams::factor
  bool row_decays = false;          // DeltaScanParams::steps
  bool adapters = false;            // add_low_rank; of a model that is served with adapters
  int32_t state_rows = 0;           // of a head's recurrent state at most: DeltaShape::key_dim, SsmShape::state_dim
};

}  // namespace dunlin::kernels
