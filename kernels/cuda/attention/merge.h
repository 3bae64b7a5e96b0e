// SPDX-License-Identifier: Apache-2.0
// The merge of parts, for every kernel whose plans have them (PartialStore).
#pragma once

#include "kernels/cuda/attention/kernel.h"

namespace dunlin::kernels::cuda {

void LaunchMerge(const AttentionCall& call, const LaunchPlan& plan, Stream stream);

}  // namespace dunlin::kernels::cuda
