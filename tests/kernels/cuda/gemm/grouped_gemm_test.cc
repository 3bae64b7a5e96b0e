// SPDX-License-Identifier: Apache-2.0
// Whole launches of the grouped tile GEMM on the host, with NaN in all memory that must not be read: against FP64, and
// bit for bit against the tile GEMM of each group alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "kernels/cuda/gemm/pack_codes.h"
#include "tests/kernels/cpu/coded_matrix.h"
#include "tests/kernels/cuda/gemm/grouped_runner.h"

namespace dunlin::kernels::cuda {
namespace {

// Odd counts, none at either end, one row, all rows in one group, and blocks of one and of several groups of rows.
const std::vector<std::vector<int32_t>> kDivisions = {{3, 0, 1, 29}, {0, 0, 5}, {1}, {0, 70, 0}, {65, 64, 0, 1}};

// The rows of one group as a launch of the tile GEMM that has no other.
std::vector<float> Alone(const Weights& weights, size_t group, const HostMatrix& in, const ExpertRows& rows) {
  const int64_t columns = weights.list[group].weight.out_features;
  std::vector<float> out(static_cast<size_t>(in.view().rows * columns));
  const Activation activation = ActivationOf(in);
  const GemmParams params{&activation, &weights.list[group].weight, weights.list[group].bias, nullptr, out.data(),
                          columns,     rows.first + rows.count};
  RunTiles(params, rows.first, rows.count, false);
  const auto first = out.begin() + rows.first * columns;
  return {first, first + rows.count * columns};
}

TEST(GroupedGemm, MatchesFp64AndTheTileGemmOfEachGroup) {
  constexpr int64_t kColumns = 66;
  for (const TileOperands& operands : kOperands) {
    for (const std::vector<int32_t>& counts : kDivisions) {
      for (const auto& [depth, stride] : {std::pair<int64_t, int64_t>{300, kColumns}, {37, kColumns + 2}}) {
        SCOPED_TRACE(NameOf(operands) + " groups " + std::to_string(counts.size()) + " depth " + std::to_string(depth));
        const std::vector<ExpertRows> groups = GroupsOf(counts);
        const int32_t rows = std::accumulate(counts.begin(), counts.end(), 0);
        const Weights weights(operands, counts.size(), kColumns, depth);
        const HostMatrix in(operands.precision, rows, depth, operands.scale_block);
        FillRandom(in, 1);
        const Activation activation = ActivationOf(in);
        std::vector<float> out(static_cast<size_t>(rows * stride), NAN);
        const GroupedGemmParams params{.in = &activation,
                                       .weights = weights.list.data(),
                                       .num_groups = static_cast<int32_t>(counts.size()),
                                       .groups = groups.data(),
                                       .out = out.data(),
                                       .out_stride = stride,
                                       .num_rows = rows};
        ASSERT_TRUE(IsValid(params));
        RunCall(CallOf(params, 0, params.num_groups), operands.precision);
        for (size_t g = 0; g < groups.size(); ++g) {
          const bool tiles = operands.precision != Precision::kFp32 && groups[g].count > 0;
          const std::vector<float> alone = tiles ? Alone(weights, g, in, groups[g]) : std::vector<float>();
          for (int64_t i = 0; i < groups[g].count; ++i) {
            const int64_t row = groups[g].first + i;
            const float* of_row = out.data() + row * stride;
            ASSERT_NO_FATAL_FAILURE(ExpectIsTheProduct(of_row, weights.matrices[g], weights.biases[g], in, row));
            if (tiles) {
              ASSERT_EQ(std::memcmp(of_row, alone.data() + i * kColumns, kColumns * sizeof(float)), 0) << row;
            }
            if (stride > kColumns) {
              ASSERT_TRUE(std::isnan(of_row[kColumns])) << "between rows nothing is written";
            }
          }
        }
      }
    }
  }
}

// A row's group and neighbours change, its bits do not.
TEST(GroupedGemm, ARowHasTheSameBitsAmongAnyRows) {
  constexpr int64_t kColumns = 40;
  constexpr int64_t kDepth = 129;
  for (const TileOperands& operands : kOperands) {
    SCOPED_TRACE(NameOf(operands));
    const Weights weights(operands, 2, kColumns, kDepth);
    const HostMatrix in(operands.precision, 90, kDepth, operands.scale_block);
    FillRandom(in, 1);
    const Activation activation = ActivationOf(in);
    std::vector<float> expected;  // of row 0
    for (const std::vector<int32_t>& counts : {std::vector<int32_t>{1, 0}, {90, 0}, {17, 73}, {2, 1}}) {
      const std::vector<ExpertRows> groups = GroupsOf(counts);
      std::vector<float> out(static_cast<size_t>(90 * kColumns));
      const GroupedGemmParams params{.in = &activation,
                                     .weights = weights.list.data(),
                                     .num_groups = 2,
                                     .groups = groups.data(),
                                     .out = out.data(),
                                     .out_stride = kColumns,
                                     .num_rows = counts[0] + counts[1]};
      RunCall(CallOf(params, 0, 2), operands.precision);
      out.resize(kColumns);
      if (expected.empty()) expected = out;
      EXPECT_EQ(out, expected) << counts[0] << " rows";
    }
  }
}

// Two launches divide the groups, whose rows they find by the groups' first rows.
TEST(GroupedGemm, MoreGroupsThanALaunchHasTakeSeveral) {
  constexpr int32_t kGroups = kGroupsPerLaunch + 5;
  const Weights weights({Precision::kBf16, 0}, kGroups, 8, 16);
  std::vector<int32_t> counts(kGroups);
  for (int32_t i = 0; i < kGroups; ++i) counts[static_cast<size_t>(i)] = i % 3;
  const std::vector<ExpertRows> groups = GroupsOf(counts);
  const int32_t rows = std::accumulate(counts.begin(), counts.end(), 0);
  const HostMatrix in(Precision::kBf16, rows, 16);
  FillRandom(in, 1);
  const Activation activation = ActivationOf(in);
  std::vector<float> out(static_cast<size_t>(rows * 8), NAN);
  const GroupedGemmParams params{.in = &activation,
                                 .weights = weights.list.data(),
                                 .num_groups = kGroups,
                                 .groups = groups.data(),
                                 .out = out.data(),
                                 .out_stride = 8,
                                 .num_rows = rows};
  RunCall(CallOf(params, 0, kGroupsPerLaunch), Precision::kBf16);
  RunCall(CallOf(params, kGroupsPerLaunch, 5), Precision::kBf16);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int64_t row = groups[g].first; row < groups[g].first + groups[g].count; ++row) {
      ASSERT_NO_FATAL_FAILURE(
          ExpectIsTheProduct(out.data() + row * 8, weights.matrices[g], weights.biases[g], in, row));
    }
  }
}

// Codes of groups of 32, four bits each.
TEST(GroupedGemm, IntegerCodesHaveTheBitsOfTheTileGemm) {
  constexpr int64_t kColumns = 70;
  constexpr int64_t kDepth = 150;
  const testing_cpu::CodedForm& form = testing_cpu::kCodedForms[0];
  std::vector<std::unique_ptr<testing::PoisonedMemory>> memory;
  Weights weights({Precision::kBf16, 0}, 3, kColumns, kDepth);
  for (size_t g = 0; g < 3; ++g) {
    const testing_cpu::CodedMatrix matrix(form.traits, kColumns, kDepth, static_cast<uint32_t>(5 + g));
    CodedView view{nullptr, CodedFormatOf(form.format), kColumns, kDepth};
    memory.push_back(std::make_unique<testing::PoisonedMemory>(static_cast<size_t>(view.bytes())));
    view.data = reinterpret_cast<unsigned char*>(memory.back()->data());
    for (int64_t row = 0; row < kColumns; ++row) {
      for (int64_t half = 0; half < 2 * view.tiles(); ++half) CopyHalfTile({matrix.Rows(0), 0}, view, row, half);
    }
    weights.list[g].weight.data = view.data;
    weights.list[g].weight.format = form.format;
  }
  for (const std::vector<int32_t>& counts : {std::vector<int32_t>{4, 0, 7}, {40, 1, 33}}) {
    const std::vector<ExpertRows> groups = GroupsOf(counts);
    const int32_t rows = std::accumulate(counts.begin(), counts.end(), 0);
    const HostMatrix in(Precision::kBf16, rows, kDepth);
    FillRandom(in, 1);
    const Activation activation = ActivationOf(in);
    std::vector<float> out(static_cast<size_t>(rows * kColumns), NAN);
    const GroupedGemmParams params{.in = &activation,
                                   .weights = weights.list.data(),
                                   .num_groups = 3,
                                   .groups = groups.data(),
                                   .out = out.data(),
                                   .out_stride = kColumns,
                                   .num_rows = rows};
    RunCall(CallOf(params, 0, 3), Precision::kBf16);
    for (size_t g = 0; g < 3; ++g) {
      if (counts[g] == 0) continue;
      const std::vector<float> alone = Alone(weights, g, in, groups[g]);
      ASSERT_EQ(std::memcmp(out.data() + groups[g].first * kColumns, alone.data(), alone.size() * sizeof(float)), 0);
    }
  }
}

// In place of FP32 rows: tanh-GELU, rounded to the next input.
TEST(GroupedGemm, AFusedActivationWritesTheNextInput) {
  constexpr int64_t kColumns = 80;
  const std::vector<ExpertRows> groups = GroupsOf({3, 0, 18});
  for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp32}) {
    SCOPED_TRACE(Name(precision));
    const Weights weights({precision, 0}, 3, kColumns, 50);
    const HostMatrix in(precision, 21, 50);
    FillRandom(in, 1);
    const HostMatrix next(precision, 21, kColumns);
    const Activation activation = ActivationOf(in);
    Activation to = ActivationOf(next);
    GroupedGemmParams params{.in = &activation,
                             .weights = weights.list.data(),
                             .num_groups = 3,
                             .groups = groups.data(),
                             .out = nullptr,
                             .out_stride = 0,
                             .num_rows = 21,
                             .next = &to};
    RunCall(CallOf(params, 0, 3), precision);
    std::vector<float> out(21 * kColumns);
    params.next = nullptr;
    params.out = out.data();
    params.out_stride = kColumns;
    RunCall(CallOf(params, 0, 3), precision);
    const double rounding = precision == Precision::kFp32 ? 0x1p-22 : precision == Precision::kFp16 ? 0x1p-10 : 0x1p-7;
    for (int64_t row = 0; row < 21; ++row) {
      for (int64_t n = 0; n < kColumns; ++n) {
        const float expected = GeluTanh(out[static_cast<size_t>(row * kColumns + n)]);
        ASSERT_NEAR(next.At(row, n), expected, rounding * std::fabs(expected) + 1e-7) << row << ", " << n;
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
