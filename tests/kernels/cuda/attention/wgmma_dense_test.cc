// SPDX-License-Identifier: Apache-2.0
// FLASH and EFFICIENT by wgmma on the host's machine: dense calls against FP64.
#include <gtest/gtest.h>

#include "kernels/cuda/attention/flash/sm90/wgmma_flash.h"
#include "tests/kernels/cuda/attention/host_attention.h"

namespace dunlin::kernels::cuda {
namespace {

// Dense tensors: other alignments of the causal mask, no mask, more and fewer keys than queries, outputs of 16 bits.
using testing::DenseShape;
const DenseShape kDenseShapes[] = {
    {.dtype = DType::kBF16, .batch = 2, .num_kv_heads = 2, .group = 3, .q_len = 70, .kv_len = 300, .head_dim = 64},
    {.dtype = DType::kF16,
     .batch = 1,
     .num_kv_heads = 1,
     .group = 2,
     .q_len = 150,
     .kv_len = 150,
     .head_dim = 128,
     .causal = true},
    {.dtype = DType::kBF16,
     .batch = 1,
     .num_kv_heads = 2,
     .group = 1,
     .q_len = 130,
     .kv_len = 260,
     .head_dim = 96,
     .causal = true,
     .alignment = CausalAlignment::kBottomRight},
    {.dtype = DType::kBF16,
     .batch = 3,
     .num_kv_heads = 1,
     .group = 1,
     .q_len = 9,
     .kv_len = 5,
     .head_dim = 32,
     .causal = true,
     .alignment = CausalAlignment::kBottomRight},
    {.dtype = DType::kF16,
     .batch = 1,
     .num_kv_heads = 1,
     .group = 1,
     .q_len = 40,
     .kv_len = 1400,
     .head_dim = 64,
     .scale = -0.25F},
    {.dtype = DType::kF16,
     .batch = 1,
     .num_kv_heads = 1,
     .group = 1,
     .q_len = 5,
     .kv_len = 130,
     .head_dim = 64,
     .scale = 0.0F},
    {.dtype = DType::kBF16,
     .batch = 1,
     .num_kv_heads = 1,
     .group = 2,
     .q_len = 200,
     .kv_len = 200,
     .head_dim = 128,
     .causal = true,
     .window = 40},
    {.dtype = DType::kBF16,
     .batch = 1,
     .num_kv_heads = 2,
     .group = 2,
     .q_len = 90,
     .kv_len = 1200,
     .head_dim = 256,
     .causal = true,
     .alignment = CausalAlignment::kBottomRight},
    {.dtype = DType::kF16,
     .batch = 2,
     .num_kv_heads = 1,
     .group = 1,
     .q_len = 70,
     .kv_len = 150,
     .head_dim = 192,
     .v_head_dim = 128},
    {.dtype = DType::kBF16,
     .batch = 1,
     .num_kv_heads = 2,
     .group = 2,
     .q_len = 50,
     .kv_len = 1100,
     .head_dim = 512,
     .causal = true,
     .alignment = CausalAlignment::kBottomRight,
     .window = 300},
    {.dtype = DType::kF16,
     .batch = 2,
     .num_kv_heads = 1,
     .group = 1,
     .q_len = 70,
     .kv_len = 150,
     .head_dim = 328,
     .v_head_dim = 456},
};

TEST(WgmmaFlashDense, CallsStayWithinTwiceTheUnfusedError) {
  constexpr AttentionBackend kBackends[] = {AttentionBackend::kFlash, AttentionBackend::kEfficient};
  for (const DenseShape& shape : kDenseShapes) {
    SCOPED_TRACE(std::to_string(shape.q_len) + " x " + std::to_string(shape.kv_len) + " x " +
                 std::to_string(shape.head_dim));
    const testing::DenseProblem problem(shape);
    const AttentionCall call = CallOf(problem.Params(AttentionBackend::kFlash, nullptr));
    EXPECT_TRUE(TakesWgmmaFlash(call));
    std::vector<float> outs[2];
    testing::ErrorBound bounds[2];
    for (const size_t backend : {0, 1}) outs[backend] = testing::Hopper().Dense(problem, kBackends[backend]);
    for (int32_t b = 0; b < shape.batch; ++b) {
      for (int32_t head = 0; head < shape.num_heads(); ++head) {
        for (int32_t t = 0; t < shape.q_len; ++t) {
          const testing::ReferenceRow row = problem.Row(b, head, t);
          const std::vector<double> exact = ExactRow(row);
          const std::vector<float> unfused = UnfusedRow(row, shape.dtype);
          for (const size_t backend : {0, 1}) {
            const float* actual = outs[backend].data() + problem.OutputStart(b, head, t);
            bounds[backend].Add(exact, unfused, actual);
            if (row.limit > row.begin) continue;
            for (int32_t d = 0; d < shape.value_dim(); ++d) ASSERT_EQ(actual[d], 0.0F) << "a row that sees no key";
          }
        }
      }
    }
    for (const testing::ErrorBound& bound : bounds) {
      EXPECT_TRUE(bound.holds()) << bound.actual() << ", limit " << bound.limit();
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
