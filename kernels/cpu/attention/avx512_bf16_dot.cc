// AVX-512 tiles of BF16 pages, the pairs multiplied by the BF16 dot product (dpbf16: FP32 sums, denormals are zeros),
// which needs P in BF16. MATH's P is FP32, so its values are widened (vector_loaders.h).
#include "kernels/cpu/attention/avx512_bf16_softmax.h"
#include "kernels/cpu/attention/avx512_bf16_step.h"
#include "kernels/cpu/attention/avx512_bf16_tiles.h"
#include "kernels/cpu/attention/lanes_avx512.h"
#include "kernels/cpu/attention/vector_table.h"

namespace dunlin::kernels::cpu {
namespace {

struct DotKeys : dot::PairKeys {};
struct DotValues : dot::PairValues {};
struct FloatValues : vectors::Bf16Values<avx512::Lanes> {};

// Where one thread reads more of memory by a stream, and two no less: Zen 5, docs/benchmarks.md. Dimensions that fill
// the vectors of these rows in keys and values.
AskPlan PlanStream(int rows, int32_t head_dim) {
  if (head_dim == 64 && rows >= 2 && rows <= dot::kGroup) return {.ahead = 3, .eighths = 6};
  if (head_dim == 64 && rows > dot::kGroup && rows <= dot::kFewRows) return {.ahead = 6, .eighths = 6};
  if (head_dim == 128 && rows >= 4 && rows <= dot::kGroup) return {.ahead = 7, .eighths = 7};
  return {};
}

// Where streams go into L2: Zen 4, docs/benchmarks.md.
AskPlan PlanStreamIntoL2(int rows, int32_t head_dim) {
  if (rows > dot::kFewRows || head_dim % 64 != 0) return {};
  return {.ahead = 8,
          .eighths = rows <= dot::kGroup ? 7 : 6,
          .into_l2 = true,
          .side = dot::StreamSide(rows, /*into_l2=*/true)};
}

template <bool kIntoL2>
constexpr TileOps Tiles() {
  TileOps ops = vectors::TilesOf<DotKeys, DotValues, FloatValues>();
  ops.load_query = dot::LoadQuery<DotValues>;
  ops.score_rows = 48;  // 24 KB
  ops.plan_asks = kIntoL2 ? PlanStreamIntoL2 : PlanStream;
  ops.near_rows = {.first = 1, .last = dot::kNearRows};
  ops.round_rows = {.first = 1, .last = 1};
  ops.scores = dot::Scores<DotKeys, kIntoL2>;
  ops.running_softmax = dot::RunningSoftmax<DotValues>;
  ops.chunk_softmax = dot::ChunkSoftmax<DotValues>;
  ops.values = dot::AddValues<DotValues, kIntoL2>;
  return ops;
}

}  // namespace

const TileOps kAvx512Bf16DotTiles = Tiles<false>();
const TileOps kAvx512Bf16DotL2Tiles = Tiles<true>();

}  // namespace dunlin::kernels::cpu
