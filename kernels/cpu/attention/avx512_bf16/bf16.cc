// SPDX-License-Identifier: Apache-2.0
// AVX-512 tiles of BF16 pages, the pairs multiplied by the BF16 dot product (dpbf16: FP32 sums, denormals are zeros),
// which needs P in BF16. MATH's P is FP32, so its values are widened (vector/loaders.h).
#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/avx512_bf16/loaders.h"
#include "kernels/cpu/attention/avx512_bf16/softmax.h"
#include "kernels/cpu/attention/avx512_bf16/tiles.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {
namespace {

struct DotKeys : bf16_dot::PairKeys {};
struct DotValues : bf16_dot::PairValues {};
using FloatValues = attention::Bf16Values<avx512::TileLanes>;

template <bool kIntoL2>
constexpr TileOps Tiles() {
  TileOps ops = attention::TilesOf<DotKeys, DotValues, FloatValues>();
  ops.load_query = bf16_dot::LoadQuery<DotValues>;
  ops.score_rows = 48;  // 24 KB
  ops.scores = bf16_dot::Scores<DotKeys, kIntoL2>;
  ops.running_softmax = bf16_dot::RunningSoftmax<DotValues>;
  ops.chunk_softmax = bf16_dot::ChunkSoftmax<DotValues>;
  ops.values = bf16_dot::AddValues<DotValues, kIntoL2>;
  return ops;
}

}  // namespace

const TileOps kAvx512Bf16DotTiles = Tiles<false>();
const TileOps kAvx512Bf16DotL2Tiles = Tiles<true>();

}  // namespace dunlin::kernels::cpu
