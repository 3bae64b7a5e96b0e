// SPDX-License-Identifier: Apache-2.0
// AVX-512 kernels over widened tiles, for every KV dtype (vector/wide_tiles.h).
// Instantiations: 12 score kernels, 12 x 2 value kernels.
#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/vector/wide_tiles.h"

namespace dunlin::kernels::cpu::avx512 {

void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales,
                const attention::PrefetchSource& next) {
  attention::WideScores<TileLanes>(args, panel, depth, scales, next);
}
void WideValues(const ValueArgs& args, int panel, const attention::PrefetchSource& next) {
  attention::WideValues<TileLanes>(args, panel, next);
}

}  // namespace dunlin::kernels::cpu::avx512
