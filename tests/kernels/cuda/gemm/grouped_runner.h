// SPDX-License-Identifier: Apache-2.0
// The grouped tile GEMM on the host: the blocks of a launch in turn, as plain C++ from the device's source, and its
// operands. Shared memory starts as NaN and ends with a guard.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cuda/gemm/sm80/fp32_block.h"
#include "kernels/cuda/gemm/sm80/grouped_plan.h"
#include "tests/kernels/cuda/gemm/tile_runner.h"

namespace dunlin::kernels::cuda {

template <typename Block>
void RunBlocks(const GroupedCall& call) {
  for (int64_t index = 0; index < BlocksOf(call, Block::kRowGroups); ++index) {
    testing::PoisonedMemory shared(decltype(Block::memory)::kBytes);
    RunGroupedGemm<Block>(call, index, reinterpret_cast<unsigned char*>(shared.data()));
    ASSERT_TRUE(shared.Intact()) << "wrote past shared memory";
  }
}

template <typename Few, typename Many>
void RunByRows(const GroupedCall& call, Precision precision) {
  if (RowGroupsOf(call, precision) == 1) return RunBlocks<Few>(call);
  RunBlocks<Many>(call);
}

template <typename Operand>
void RunPlain(const GroupedCall& call, Precision precision) {
  RunByRows<GemmBlock<Operand, 1, false>, GemmBlock<Operand, 4, false>>(call, precision);
}

// As the launchers of grouped_kernels.h.
inline void RunCall(const GroupedCall& call, Precision precision) {
  if (call.tile.coded.format.number_bytes > 0) return RunByRows<CodedGemmBlock<1>, CodedGemmBlock<4>>(call, precision);
  if (precision == Precision::kFp32) return RunBlocks<Fp32GemmBlock>(call);
  if (precision == Precision::kBf16) return RunPlain<PlainOperand<Bf16Format>>(call, precision);
  if (precision == Precision::kFp16) return RunPlain<PlainOperand<Fp16Format>>(call, precision);
  if (call.tile.weight_scales == nullptr) return RunPlain<CodeOperand>(call, precision);
  RunByRows<GemmBlock<CodeOperand, 1, true>, GemmBlock<CodeOperand, 2, true>>(call, precision);
}

inline constexpr TileOperands kOperands[] = {{Precision::kFp32, 0},
                                             {Precision::kBf16, 0},
                                             {Precision::kFp16, 0},
                                             {Precision::kFp8, 0},
                                             {Precision::kFp8, kScaleBlock}};

inline Activation ActivationOf(const HostMatrix& matrix) {
  return {.data = matrix.view().data,
          .precision = matrix.view().precision,
          .capacity_rows = static_cast<int32_t>(matrix.view().rows),
          .columns = static_cast<int32_t>(matrix.view().columns),
          .scale_block = matrix.view().scale_block};
}

// One weight for each group, all alike.
struct Weights {
  Weights(const TileOperands& operands, size_t count, int64_t columns, int64_t depth) {
    for (size_t i = 0; i < count; ++i) {
      matrices.emplace_back(operands.precision, columns, depth, operands.scale_block);
      FillRandom(matrices.back(), static_cast<uint32_t>(100 + i));
      biases.push_back(RandomValues(columns, static_cast<uint32_t>(200 + i)));
    }
    for (size_t i = 0; i < count; ++i) list.push_back({matrices[i].Weight(), biases[i].data()});
  }
  std::vector<HostMatrix> matrices;
  std::vector<std::vector<float>> biases;
  std::vector<BiasedWeight> list;
};

inline std::vector<ExpertRows> GroupsOf(const std::vector<int32_t>& counts) {
  std::vector<ExpertRows> groups;
  int32_t first = 0;
  for (const int32_t count : counts) {
    groups.push_back({first, count, count});
    first += count;
  }
  return groups;
}

inline void ExpectIsTheProduct(const float* out, const HostMatrix& weight, const std::vector<float>& bias,
                               const HostMatrix& in, int64_t row) {
  for (int64_t n = 0; n < weight.view().rows; ++n) {
    double expected = bias[static_cast<size_t>(n)];
    double magnitude = std::fabs(expected);
    for (int64_t k = 0; k < in.view().columns; ++k) {
      const double product = double{weight.At(n, k)} * in.At(row, k);
      expected += product;
      magnitude += std::fabs(product);
    }
    ASSERT_NEAR(out[n], expected, static_cast<double>(in.view().columns + 8) * 0x1p-23 * magnitude) << row << ", " << n;
  }
}

}  // namespace dunlin::kernels::cuda
