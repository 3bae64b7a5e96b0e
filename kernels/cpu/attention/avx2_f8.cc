// AVX2 tiles of E4M3 pages, multiplied as floats (vector_loaders.h).
#include "kernels/cpu/attention/lanes_avx2.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : vectors::F8Keys<avx2::Lanes> {};
struct Values : vectors::F8Values<avx2::Lanes> {};

}  // namespace

const TileOps kAvx2F8Tiles = vectors::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
