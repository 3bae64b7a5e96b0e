// AVX-512 tiles of BF16 pages, multiplied as floats (vector_loaders.h).
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : vectors::Bf16Keys<avx512::Lanes> {};
struct Values : vectors::Bf16Values<avx512::Lanes> {};

}  // namespace

const TileOps kAvx512Bf16Tiles = vectors::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
