// SPDX-License-Identifier: Apache-2.0
// Pools the hidden states of an input into its vector. Pure. Sums run over the input's rows in order, in double, so the
// bits depend on nothing but the input.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/encoder/ragged_batch.h"

namespace dunlin::engine {

// Pools rows [num_rows, hidden_dim] into input->vector: the first `dimensions` of mean, first or last row, divided by
// their Euclidean length when `normalize` is set (at least 1e-12, as torch.nn.functional.normalize does). Sets
// input->finite. num_rows: input->num_tokens, or 1 where the batch kept only the row that is pooled. sums:
// [>= dimensions] scratch.
void PoolRows(const float* rows, int32_t num_rows, int32_t hidden_dim, BatchInput* input, std::vector<double>* sums);

}  // namespace dunlin::engine
