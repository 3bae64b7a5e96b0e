// Softmax and merge primitives of the portable variant (tile_ops.h gives their meaning), for both P types.
#pragma once

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::portable {

void RunningSoftmaxF32(const RunningSoftmaxArgs& args);
void RunningSoftmaxBf16(const RunningSoftmaxArgs& args);
void ChunkSoftmaxF32(const ChunkSoftmaxArgs& args);
void ChunkSoftmaxBf16(const ChunkSoftmaxArgs& args);
void FullSoftmax(const FullSoftmaxArgs& args);
void Merge(const MergeArgs& args);

}  // namespace dunlin::kernels::cpu::portable
