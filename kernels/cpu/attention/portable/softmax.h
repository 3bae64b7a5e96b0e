// SPDX-License-Identifier: Apache-2.0
// Score adjustment, softmax and merge primitives of the portable variant (tile_ops.h gives their meaning); P is FP32.
#pragma once

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::portable {

void AdjustRow(const AdjustRowArgs& args);
void RunningSoftmax(const RunningSoftmaxArgs& args);
void ChunkSoftmax(const ChunkSoftmaxArgs& args);
void FullSoftmax(const FullSoftmaxArgs& args);
void Merge(const MergeArgs& args);

}  // namespace dunlin::kernels::cpu::portable
