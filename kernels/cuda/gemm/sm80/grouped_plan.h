// SPDX-License-Identifier: Apache-2.0
// The launches of grouped and batched GEMMs: one for each kGroupsPerLaunch groups. Host code.
#pragma once

#include <cstdint>

#include "kernels/api/grouped_gemm.h"
#include "kernels/cuda/gemm/sm80/grouped_call.h"

namespace dunlin::kernels::cuda {

// What the host can see of the parameters; the rows of groups are the caller's responsibility.
bool IsValid(const GroupedGemmParams& params);
bool IsValid(const BatchedGemmParams& params);

// Groups [first, first + num_groups) of a valid call, num_groups <= kGroupsPerLaunch.
GroupedCall CallOf(const GroupedGemmParams& params, int32_t first, int32_t num_groups);
// Batches [first, first + num_batches), whose rows params.rounded holds from row 0 on.
GroupedCall CallOf(const BatchedGemmParams& params, int32_t first, int32_t num_batches);
// Batches whose rounded rows fit the scratch, at most kGroupsPerLaunch. REQUIRES: num_rows > 0.
int32_t BatchesPerLaunch(const BatchedGemmParams& params);

// Groups of 16 rows per block, by the mean number of rows: 1 or 4; with scales per 128 codes 1 or 2 (GroupsOf), FP32 1.
int RowGroupsOf(const GroupedCall& call, Precision precision);
// Enough for any division of the rows.
int64_t BlocksOf(const GroupedCall& call, int row_groups);

}  // namespace dunlin::kernels::cuda
