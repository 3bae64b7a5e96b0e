// SPDX-License-Identifier: Apache-2.0
// The kernels over widened tiles of each instruction set (vector/wide_tiles.h). ScoreArgs::wide or ValueArgs::wide
// holds the panel of that number. depth: multiply-adds of a score. scales: what the scores of the panel's keys are
// multiplied by, or null. next: what the next panel is widened from, prefetched meanwhile.
#pragma once

#include "kernels/cpu/attention/tile_ops.h"
#include "kernels/cpu/attention/vector/prefetch.h"

namespace dunlin::kernels::cpu::avx512 {
void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales,
                const attention::PrefetchSource& next);
void WideValues(const ValueArgs& args, int panel, const attention::PrefetchSource& next);
}  // namespace dunlin::kernels::cpu::avx512

namespace dunlin::kernels::cpu::neon {
void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales,
                const attention::PrefetchSource& next);
void WideValues(const ValueArgs& args, int panel, const attention::PrefetchSource& next);
}  // namespace dunlin::kernels::cpu::neon

namespace dunlin::kernels::cpu::avx2 {
void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales,
                const attention::PrefetchSource& next);
void WideValues(const ValueArgs& args, int panel, const attention::PrefetchSource& next);
}  // namespace dunlin::kernels::cpu::avx2
