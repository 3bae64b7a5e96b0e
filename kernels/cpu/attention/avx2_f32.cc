// AVX2 tiles of FP32 pages, multiplied as floats (vector_loaders.h).
#include "kernels/cpu/attention/lanes_avx2.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : vectors::F32Keys<avx2::Lanes> {};
struct Values : vectors::F32Values<avx2::Lanes> {};

}  // namespace

const TileOps kAvx2F32Tiles = vectors::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
