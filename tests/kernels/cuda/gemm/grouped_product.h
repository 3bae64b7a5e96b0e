// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows by the wgmma GEMM on the host's machine: weights at equal distances, as a model's storage
// has them, and each group's rows as a product of its own.
#pragma once

#include <cstring>
#include <numeric>
#include <vector>

#include "tests/kernels/cuda/gemm/grouped_runner.h"
#include "tests/kernels/cuda/gemm/wgmma_product.h"

namespace dunlin::kernels::cuda {

struct GroupedProduct {
  GroupedProduct(const TileOperands& operands, const std::vector<int32_t>& counts, int64_t columns, int64_t depth,
                 int64_t out_stride)
      : weights(operands, counts.size(), columns, depth),
        in(operands.precision, std::accumulate(counts.begin(), counts.end(), 0), depth, operands.scale_block),
        groups(GroupsOf(counts)),
        activation(ActivationOf(in)),
        stride(out_stride) {
    FillRandom(in, 1);
    const auto bytes = static_cast<size_t>(MatrixBytes(operands.precision, columns, depth, operands.scale_block));
    const auto bias_stride = static_cast<size_t>(columns) + 3;
    memory.resize(bytes / sizeof(Line) * counts.size());
    biases.resize(bias_stride * counts.size());
    auto* data = reinterpret_cast<unsigned char*>(memory.data());
    list = weights.list;
    for (size_t g = 0; g < counts.size(); ++g) {
      std::memcpy(data + g * bytes, list[g].weight.data, bytes);
      std::copy(weights.biases[g].begin(), weights.biases[g].end(),
                biases.begin() + static_cast<ptrdiff_t>(g * bias_stride));
      list[g].weight.data = data + g * bytes;
      list[g].bias = biases.data() + g * bias_stride;
    }
  }
  int32_t rows() const { return activation.capacity_rows; }

  GroupedGemmParams Params(float* out) const {
    return {.in = &activation,
            .weights = list.data(),
            .num_groups = static_cast<int32_t>(list.size()),
            .groups = groups.data(),
            .out = out,
            .out_stride = stride,
            .num_rows = rows()};
  }
  GroupedTileCall Call(const GroupedGemmParams& params, int32_t multiprocessors) const {
    GroupedTileCall call;
    EXPECT_TRUE(GroupedTileCallOf(params, 0, params.num_groups, &call));
    call.tile.multiprocessors = multiprocessors;
    return call;
  }
  std::vector<float> Poisoned() const { return std::vector<float>(static_cast<size_t>(rows() * stride), -77.0F); }
  template <typename Tile>
  std::vector<float> Run(int32_t multiprocessors, uint64_t seed) const {
    std::vector<float> out = Poisoned();
    EXPECT_EQ(RunGroupedWgmma<Tile>(Call(Params(out.data()), multiprocessors), {.seed = seed}), "");
    return out;
  }
  template <typename Tile>
  std::vector<float> Alone() const {
    std::vector<float> out = Poisoned();
    for (size_t g = 0; g < list.size(); ++g) {
      if (groups[g].count == 0) continue;
      const GemmParams params{&activation, &list[g].weight, list[g].bias, nullptr, out.data(), stride, rows()};
      TileCall call = TileCallOf(params, groups[g].first, groups[g].count, false, nullptr);
      call.multiprocessors = 132;
      EXPECT_EQ(RunWgmma<Tile>(call), "");
    }
    return out;
  }

  struct alignas(256) Line {
    unsigned char bytes[256];
  };
  Weights weights;
  HostMatrix in;
  std::vector<ExpertRows> groups;
  Activation activation;
  int64_t stride;
  std::vector<Line> memory;
  std::vector<float> biases;
  std::vector<BiasedWeight> list;
};

}  // namespace dunlin::kernels::cuda
