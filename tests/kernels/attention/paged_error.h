// SPDX-License-Identifier: Apache-2.0
// A paged call's outputs against FP64.
#pragma once

#include <vector>

#include "tests/kernels/attention/paged_batch.h"
#include "tests/kernels/attention/reference.h"

namespace dunlin::kernels::testing {

// The errors of all rows in what running the batch returned. shape, sequences: what the batch was made of. rounding:
// of queries and weights.
ErrorBound PagedError(const PagedBatch& batch, const HeadShape& shape, const std::vector<BatchSequence>& sequences,
                      DType rounding, const std::vector<float>& out);

}  // namespace dunlin::kernels::testing
