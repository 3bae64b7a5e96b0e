// SPDX-License-Identifier: Apache-2.0
// The wgmma GEMM on groups of rows with a weight of integer codes each: whole launches on the host's machine, bit for
// bit against the product of each group alone.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/kernels/cuda/gemm/rounded_weight.h"
#include "tests/kernels/cuda/gemm/wgmma_product.h"

namespace dunlin::kernels::cuda {
namespace {

// Weights lie at equal distances, as a model's do.
struct CodedGroups {
  CodedGroups(WeightFormat format, const std::vector<int32_t>& counts, int64_t num_columns, int64_t depth)
      : columns(num_columns), in(Precision::kBf16, std::accumulate(counts.begin(), counts.end(), 0), depth) {
    FillRandom(in, 13);
    activation = {
        .data = in.view().data, .precision = Precision::kBf16, .capacity_rows = static_cast<int32_t>(in.view().rows)};
    activation.columns = static_cast<int32_t>(depth);
    const int64_t bytes = CodedView{nullptr, CodedFormatOf(format), columns, depth}.bytes();
    const auto lines = static_cast<size_t>(RoundUpTo(bytes, sizeof(Line))) / sizeof(Line);
    memory.resize(lines * counts.size());
    biases = RandomValues(columns * static_cast<int64_t>(counts.size()), 10);
    for (size_t g = 0; g < counts.size(); ++g) {
      groups.push_back({g == 0 ? 0 : groups.back().first + groups.back().count, counts[g], 0});
      const RoundedWeight weight(format, columns, depth, static_cast<uint32_t>(20 + g));
      std::memcpy(&memory[g * lines], weight.packed.data, static_cast<size_t>(bytes));
      list.push_back({weight.packed, biases.data() + static_cast<int64_t>(g) * columns});
      list.back().weight.data = &memory[g * lines];
    }
  }
  std::vector<float> Nothing() const {
    return std::vector<float>(static_cast<size_t>(in.view().rows * columns), -77.0F);
  }
  GroupedTileCall Call(std::vector<float>* out, int32_t multiprocessors) const {
    const GroupedGemmParams params{.in = &activation,
                                   .weights = list.data(),
                                   .num_groups = static_cast<int32_t>(list.size()),
                                   .groups = groups.data(),
                                   .out = out->data(),
                                   .out_stride = columns,
                                   .num_rows = activation.capacity_rows};
    GroupedTileCall call;
    EXPECT_TRUE(GroupedTileCallOf(params, 0, params.num_groups, &call));
    call.tile.multiprocessors = multiprocessors;
    return call;
  }
  // Of each group's product by itself.
  std::vector<float> Alone() const {
    std::vector<float> out = Nothing();
    for (size_t g = 0; g < list.size(); ++g) {
      if (groups[g].count == 0) continue;
      const GemmParams params{&activation, &list[g].weight,         list[g].bias, nullptr, out.data(),
                              columns,     activation.capacity_rows};
      TileCall call = TileCallOf(params, groups[g].first, groups[g].count, false, nullptr);
      call.multiprocessors = 132;
      EXPECT_EQ(RunCodedShape(CodedShape::kWide64x64, call), "");
    }
    return out;
  }

  struct alignas(256) Line {
    unsigned char bytes[256];
  };
  int64_t columns;
  HostMatrix in;
  Activation activation;
  std::vector<ExpertRows> groups;
  std::vector<Line> memory;
  std::vector<float> biases;
  std::vector<BiasedWeight> list;
};

template <typename Run>
void ForGroupedShapes(const Run& run) {
  for (int32_t shape = 0; shape < kGroupedCodedShapes; ++shape) {
    SCOPED_TRACE("shape " + std::to_string(shape));
    WithGroupedExpandedTile(static_cast<GroupedCodedShape>(shape), run);
  }
}

TEST(GroupedCodes, HaveTheBitsOfEachGroupAlone) {
  for (const auto& counts : std::vector<std::vector<int32_t>>{{3, 0, 1, 29}, {0, 0, 5}, {65, 64, 0, 1, 130}}) {
    const CodedGroups product(counts.size() == 3 ? WeightFormat::kInt8 : WeightFormat::kInt4, counts, 70, 300);
    const std::vector<float> alone = product.Alone();
    ForGroupedShapes([&](auto tile) {
      for (const int32_t multiprocessors : {1, 132}) {
        std::vector<float> out = product.Nothing();
        const GroupedTileCall call = product.Call(&out, multiprocessors);
        ASSERT_EQ(RunGroupedExpandedTile<decltype(tile)>(call, {.seed = 5}), "");
        ASSERT_EQ(out, alone);
      }
    });
  }
}

// From some call on, each mistake that the machine can make ends in a fault or in other values; and all that is read
// before the preceding kernel has ended are codes and their numbers.
TEST(GroupedCodes, MistakesAreFound) {
  ForGroupedShapes([](auto tile) {
    using Tile = decltype(tile);
    const CodedGroups product(WeightFormat::kInt4, {2, 0, 3}, 130, 1500);
    const auto run = [&](std::vector<float>* out, const MachineOptions& options) {
      return RunGroupedExpandedTile<Tile>(product.Call(out, 1), options);
    };
    const std::vector<float> clean = product.Alone();
    for (const Mistake mistake :
         {Mistake::kSkippedArrival, Mistake::kFewerBytes, Mistake::kMoreBytes, Mistake::kWrongParity,
          Mistake::kSkippedWait, Mistake::kSkippedAsyncFence, Mistake::kSkippedProductFence,
          Mistake::kSkippedProductWait, Mistake::kLateProductWait}) {
      for (const int at : {0, 20}) {
        std::vector<float> out = product.Nothing();
        const std::string fault = run(&out, {.mistake = mistake, .mistake_at = at});
        EXPECT_TRUE(!fault.empty() || out != clean) << static_cast<int>(mistake) << " at " << at;
      }
    }
    if constexpr (Tile::kSwapped) ExpectOnlyWeightsBeforeTheWait(product.in.view(), product.Nothing(), run);
  });
}

TEST(GroupedCodes, TilesFollowTheMeanOfTheRows) {
  const auto shape_of = [](int32_t rows, int32_t groups) {
    GroupedTileCall call;
    call.tile.num_rows = rows;
    call.num_groups = groups;
    return GroupedCodedShapeOf(call);
  };
  EXPECT_EQ(shape_of(8, 128), GroupedCodedShape::k16x16);
  EXPECT_EQ(shape_of(2048, 128), GroupedCodedShape::k16x16);
  EXPECT_EQ(shape_of(2049, 128), GroupedCodedShape::k64x64);
  EXPECT_EQ(shape_of(96 * 8, 8), GroupedCodedShape::k64x64);
  EXPECT_EQ(shape_of(97 * 8, 8), GroupedCodedShape::k128x128);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
