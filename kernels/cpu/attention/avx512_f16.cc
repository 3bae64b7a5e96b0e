// AVX-512 tiles of FP16 pages, multiplied as floats (vector_loaders.h).
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

template <typename Lanes>
struct Keys : vectors::F16Keys<Lanes> {};
template <typename Lanes>
struct Values : vectors::F16Values<Lanes> {};

template <typename Lanes>
constexpr TileOps Tiles() {
  return vectors::TilesOf<Keys<Lanes>, Values<Lanes>, Values<Lanes>>({.first = 1, .last = 2});
}

}  // namespace

const TileOps kAvx512F16Tiles = Tiles<avx512::Lanes>();
const TileOps kAvx512F16L2Tiles = Tiles<avx512::L2Lanes>();

}  // namespace dunlin::kernels::cpu
