// AVX-512 tiles of FP32 pages, multiplied as floats (vector_loaders.h).
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : vectors::F32Keys<avx512::Lanes> {};
struct Values : vectors::F32Values<avx512::Lanes> {};

}  // namespace

const TileOps kAvx512F32Tiles = vectors::TilesOf<Keys, Values, Values>();

}  // namespace dunlin::kernels::cpu
