// AVX-512 tiles of FP16 pages, multiplied as floats (vector_loaders.h).
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct Keys : vectors::F16Keys<avx512::Lanes> {};
struct Values : vectors::F16Values<avx512::Lanes> {};

}  // namespace

const TileOps kAvx512F16Tiles = vectors::TilesOf<Keys, Values, Values>({.first = 1, .last = 2});

}  // namespace dunlin::kernels::cpu
