// The kernels over widened tiles of each instruction set (vector_wide.h). ScoreArgs::wide or ValueArgs::wide holds
// the panel of that number. depth: multiply-adds of a score. scales: what the scores of the panel's keys are multiplied
// by, or null.
#pragma once

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::avx512 {
void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales);
void WideValues(const ValueArgs& args, int panel);
}  // namespace dunlin::kernels::cpu::avx512

namespace dunlin::kernels::cpu::avx2 {
void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales);
void WideValues(const ValueArgs& args, int panel);
}  // namespace dunlin::kernels::cpu::avx2
