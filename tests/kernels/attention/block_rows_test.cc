// SPDX-License-Identifier: Apache-2.0
// Rows of FLASH's blocks, by table, dimensions and the longest sequence of a call.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/attention/algorithms.h"
#include "kernels/cpu/attention/neon_bf16/tiles.h"
#include "kernels/cpu/attention/schedule.h"

namespace dunlin::kernels::cpu {
namespace {

int RowsOf(const TileOps& ops, int32_t head_dim, int64_t rows, int32_t v_head_dim = 0) {
  return FlashBlockRows({.head_dim = head_dim,
                         .v_head_dim = v_head_dim == 0 ? head_dim : v_head_dim,
                         .num_kv_heads = 1,
                         .rows = rows,
                         .kv_len = 100,
                         .num_threads = 2,
                         .ops = &ops});
}

// Of the variants that the build has.
const std::vector<const TileOps*> kWidening = {
#ifdef DUNLIN_CPU_AVX512_BASE
    &kAvx512F32Tiles,  &kAvx512F16Tiles, &kAvx512F32L2Tiles, &kAvx512F16L2Tiles, &kAvx512F8Tiles,
#endif
#ifdef DUNLIN_CPU_AVX512
    &kAvx512Bf16Tiles,
#endif
};
const std::vector<const TileOps*> kOthers = {
    &kPortableF32Tiles,   &kPortableBf16Tiles,
#ifdef DUNLIN_CPU_AVX2
    &kAvx2F32Tiles,       &kAvx2F8Tiles,
#endif
#ifdef DUNLIN_CPU_NEON
    &kNeonF32Tiles,       &kNeonF8Tiles,
#endif
#ifdef DUNLIN_CPU_NEON_BF16
    &kNeonBf16DotTiles,
#endif
#ifdef DUNLIN_CPU_AVX512_BF16
    &kAvx512Bf16DotTiles, &kAvx512F8DotTiles,  &kAvx512Bf16DotL2Tiles, &kAvx512F8DotL2Tiles,
#endif
#ifdef DUNLIN_CPU_AMX
    &kAmxBf16Tiles,
#endif
};

TEST(BlockRowsTest, TablesThatWidenTakeWhatTheCacheHolds) {
  for (const TileOps* ops : kWidening) {
    for (const int32_t dim : {1, 64, 96, 128}) EXPECT_EQ(RowsOf(*ops, dim, 10000), 432) << dim;
    for (const int32_t dim : {160, 240}) EXPECT_EQ(RowsOf(*ops, dim, 10000), 288) << dim;
    EXPECT_EQ(RowsOf(*ops, 256, 10000), 144);
    EXPECT_EQ(RowsOf(*ops, 64, 10000, 256), 288);
  }
}

TEST(BlockRowsTest, OthersTakeTheSmallestBlocks) {
  for (const TileOps* ops : kOthers) EXPECT_EQ(RowsOf(*ops, 64, 10000), kBlockRows);
}

TEST(BlockRowsTest, NoMoreThanASequenceHas) {
  const struct {
    int64_t rows;
    int block;
  } cases[] = {{0, 144}, {1, 144}, {144, 144}, {145, 288}, {288, 288}, {289, 432}, {INT64_MAX / 1024, 432}};
  for (const TileOps* ops : kWidening) {
    for (const auto& [rows, block] : cases) EXPECT_EQ(RowsOf(*ops, 64, rows), block) << rows;
  }
}

TEST(BlockRowsTest, SequencesOfFewRowsAreNotCounted) {
  SequenceSpan spans[4] = {};
  const int32_t lengths[] = {1, 145, 144, 1000};
  for (int i = 0; i < 4; ++i) spans[i].query_len = lengths[i];
  AttentionCall call{};
  call.layout = MakeKvLayout(DType::kF32, {.num_layers = 1, .num_kv_heads = 2, .head_dim = 64});
  call.group = 1;
  call.spans = spans;
  call.num_sequences = 4;
  EXPECT_EQ(CountTasks(call, 432, 144, 1000), 2 * (1 + 3));
  EXPECT_EQ(CountTasks(call, 144, 0, 1000), 2 * (1 + 2 + 1 + 7));
  EXPECT_EQ(CountTasks(call, 144, 0, 3), 6);  // no further than asked
  EXPECT_EQ(LargeBlocksWanted(1), 0);
  EXPECT_EQ(LargeBlocksWanted(3), 24);
}

}  // namespace
}  // namespace dunlin::kernels::cpu
