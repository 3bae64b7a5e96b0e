// The kernels over widened tiles of each instruction set (vector_wide.h). ScoreArgs::wide and ValueArgs::wide hold the
// panels. depth: multiply-adds of a score. scales: [64] what the scores of a key are multiplied by, or null.
#pragma once

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::avx512 {
void WideScores(const ScoreArgs& args, int depth, const float* scales);
void WideValues(const ValueArgs& args);
}  // namespace dunlin::kernels::cpu::avx512

namespace dunlin::kernels::cpu::avx2 {
void WideScores(const ScoreArgs& args, int depth, const float* scales);
void WideValues(const ValueArgs& args);
}  // namespace dunlin::kernels::cpu::avx2
