// AVX-512 kernels over widened tiles, for every KV dtype (vector_wide.h).
// Instantiations: 12 score kernels, 12 x 2 value kernels.
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/vector_wide.h"

namespace dunlin::kernels::cpu::avx512 {
namespace {

struct FileLanes : Lanes {};

}  // namespace

void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales, const PanelSource& following) {
  vectors::WideScores<FileLanes>(args, panel, depth, scales, following);
}
void WideValues(const ValueArgs& args, int panel, const PanelSource& following) {
  vectors::WideValues<FileLanes>(args, panel, following);
}

}  // namespace dunlin::kernels::cpu::avx512
