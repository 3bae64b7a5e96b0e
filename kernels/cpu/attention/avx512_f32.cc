// AVX-512 tiles of FP32 pages, multiplied as floats (vector_loaders.h).
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

template <typename Lanes>
struct Keys : vectors::F32Keys<Lanes> {};
template <typename Lanes>
struct Values : vectors::F32Values<Lanes> {};

template <typename Lanes>
constexpr TileOps Tiles() {
  return vectors::TilesOf<Keys<Lanes>, Values<Lanes>, Values<Lanes>>();
}

}  // namespace

const TileOps kAvx512F32Tiles = Tiles<avx512::Lanes>();
const TileOps kAvx512F32L2Tiles = Tiles<avx512::L2Lanes>();

}  // namespace dunlin::kernels::cpu
