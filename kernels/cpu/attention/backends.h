// SPDX-License-Identifier: Apache-2.0
// The attention backends of the CPU device, one row each: limits, and an algorithm for paged and for dense calls. What
// the device supports, workspaces and launches read the same row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/algorithms.h"
#include "kernels/shared/attention_rules.h"

namespace dunlin::kernels::cpu {

struct AttentionAlgorithm {
  size_t (*workspace)(const WorkspaceNeed&);
  // Runs on the context's pool. The workspace was sized for a bound of the call.
  void (*run)(DeviceContext*, const AttentionCall&, const WorkspaceNeed&, void* workspace);
};

struct AttentionBackendRow {
  AttentionBackend backend;
  AttentionLimits limits;
  bool exact_codes;  // SelectTileOps
  AttentionAlgorithm paged;
  AttentionAlgorithm dense;
  // Rows of the largest blocks that dense calls are cut into; null: dense calls take all sequences at once.
  int (*dense_block_rows)(const WorkspaceNeed&);
};

// Null: the device does not have the backend.
const AttentionBackendRow* FindBackend(AttentionBackend backend);
// The limits of all rows.
AttentionLimitsTable BackendLimits();

}  // namespace dunlin::kernels::cpu
