// SPDX-License-Identifier: Apache-2.0
// NEON kernels over widened tiles, for every KV dtype (vector/wide_tiles.h).
// Instantiations: 6 score kernels, 6 value kernels.
#include "kernels/cpu/attention/neon/tile_lanes.h"
#include "kernels/cpu/attention/vector/wide_tiles.h"

namespace dunlin::kernels::cpu::neon {

void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales,
                const attention::PrefetchSource& next) {
  attention::WideScores<TileLanes>(args, panel, depth, scales, next);
}
void WideValues(const ValueArgs& args, int panel, const attention::PrefetchSource& next) {
  attention::WideValues<TileLanes>(args, panel, next);
}

}  // namespace dunlin::kernels::cpu::neon
