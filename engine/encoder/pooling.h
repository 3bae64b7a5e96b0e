// From the hidden states of an input to its vector. Pure; sums run over an input's own rows in order, in double, so
// that the bits depend on nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/encoder/ragged_batch.h"

namespace dunlin::engine {

// Pools rows [num_rows, hidden_dim] into input->vector: the first `dimensions` of mean, first or last row, divided by
// their Euclidean length when `normalize` is set (at least 1e-12, as torch.nn.functional.normalize does). Sets
// input->finite. num_rows: input->num_tokens, or 1 where it is the one row that the pooling takes. sums:
// [>= dimensions] scratch.
void PoolRows(const float* rows, int32_t num_rows, int32_t hidden_dim, BatchInput* input, std::vector<double>* sums);

}  // namespace dunlin::engine
