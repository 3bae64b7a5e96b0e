// AVX2 tiles of BF16 pages, multiplied as floats (vector_loaders.h).
#include "kernels/cpu/attention/lanes_avx2.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : vectors::Bf16Keys<avx2::Lanes> {};
struct Values : vectors::Bf16Values<avx2::Lanes> {};

}  // namespace

const TileOps kAvx2Bf16Tiles = vectors::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
