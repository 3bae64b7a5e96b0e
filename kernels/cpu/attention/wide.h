// The kernels over widened tiles of each instruction set (vector_wide.h). ScoreArgs::wide or ValueArgs::wide holds
// the panel of that number. depth: multiply-adds of a score. scales: what the scores of the panel's keys are multiplied
// by, or null. following: what the next panel will be widened from, asked for meanwhile.
#pragma once

#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu {

// Of every block, runs of run_bytes, run_stride bytes apart, from byte `start` on.
struct PanelSource {
  const std::byte* const* blocks;
  int num_blocks;
  int runs;
  int64_t run_bytes;
  int64_t run_stride;
  int64_t start;
};

}  // namespace dunlin::kernels::cpu

namespace dunlin::kernels::cpu::avx512 {
void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales, const PanelSource& following);
void WideValues(const ValueArgs& args, int panel, const PanelSource& following);
}  // namespace dunlin::kernels::cpu::avx512

namespace dunlin::kernels::cpu::avx2 {
void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales, const PanelSource& following);
void WideValues(const ValueArgs& args, int panel, const PanelSource& following);
}  // namespace dunlin::kernels::cpu::avx2
