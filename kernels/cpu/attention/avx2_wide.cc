// AVX2 kernels over widened tiles, for every KV dtype (vector_wide.h).
// Instantiations: 6 score kernels, 6 value kernels.
#include "kernels/cpu/attention/lanes_avx2.h"
#include "kernels/cpu/attention/vector_wide.h"

namespace dunlin::kernels::cpu::avx2 {
namespace {

struct FileLanes : Lanes {};

}  // namespace

void WideScores(const ScoreArgs& args, int panel, int depth, const float* scales, const PanelSource& following) {
  vectors::WideScores<FileLanes>(args, panel, depth, scales, following);
}
void WideValues(const ValueArgs& args, int panel, const PanelSource& following) {
  vectors::WideValues<FileLanes>(args, panel, following);
}

}  // namespace dunlin::kernels::cpu::avx2
