// SPDX-License-Identifier: Apache-2.0
// Products of several matrices: each row has the bits of a product of its own and is near FP64's, with groups that have
// no rows, one or all, and batches with strides.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels {
namespace {

using namespace testing_cpu;  // NOLINT: the fixture of this folder

class GroupedProducts : public CpuVariants {};

constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kBf16, Precision::kFp16,
                                     Precision::kFp8,  Precision::kInt8, Precision::kInt4};

// One weight for each group, all alike.
struct Weights {
  Weights(Device& device, Precision precision, int32_t count, int64_t outs, int64_t ins, bool gated = false) {
    for (int32_t i = 0; i < count; ++i) {
      values.push_back(RandomMatrix(outs, ins, static_cast<uint32_t>(100 + i)));
      biases.push_back(RandomMatrix(1, outs, static_cast<uint32_t>(200 + i)));
      tensors.push_back(std::make_unique<WeightTensor>(device, precision, outs, ins));
      tensors.back()->weight.gated = gated;
      const PackWeightParams pack{&tensors.back()->weight, values.back().data(), DType::kF32, ins, 1, 0, outs};
      EXPECT_EQ(device.ops->pack_weight(device.context, pack), KernelStatus::kOk);
    }
    for (size_t i = 0; i < tensors.size(); ++i) list.push_back({tensors[i]->weight, biases[i].data()});
  }
  std::vector<std::vector<float>> values;
  std::vector<std::vector<float>> biases;
  std::vector<std::unique_ptr<WeightTensor>> tensors;
  std::vector<BiasedWeight> list;
};

// Counts of the groups' rows: odd ones, none at either end, one row, and all rows in one group.
const std::vector<std::vector<int32_t>> kDivisions = {{3, 0, 1, 29}, {0, 0, 5}, {1}, {0, 70, 0, 0}, {1, 1, 1, 0, 17}};

std::vector<ExpertRows> GroupsOf(const std::vector<int32_t>& counts) {
  std::vector<ExpertRows> groups;
  int32_t first = 0;
  for (const int32_t count : counts) {
    groups.push_back({first, count, count / 2});
    first += count;
  }
  return groups;
}

// Within the bound of a chain of FP32 additions.
void ExpectNearFp64(const float* out, Precision precision, const std::vector<float>& weight,
                    const std::vector<float>& bias, const float* in, int64_t outs, int64_t ins) {
  const std::vector<double> row = RoundedRow(precision, in, ins, false);
  for (int64_t n = 0; n < outs; ++n) {
    const std::vector<double> of_weight = RoundedRow(precision, weight.data() + n * ins, ins, true);
    double expected = bias[static_cast<size_t>(n)];
    double magnitude = std::fabs(expected);
    for (size_t k = 0; k < row.size(); ++k) {
      expected += row[k] * of_weight[k];
      magnitude += std::fabs(row[k] * of_weight[k]);
    }
    ASSERT_NEAR(out[n], expected, static_cast<double>(ins + 8) * 0x1p-23 * magnitude) << n;
  }
}

TEST_P(GroupedProducts, HaveTheBitsOfAProductForEachGroup) {
  constexpr int64_t kOuts = 37;
  constexpr int64_t kIns = 70;
  for (const Precision precision : kPrecisions) {
    for (const std::vector<int32_t>& counts : kDivisions) {
      SCOPED_TRACE(std::string(Name(precision)) + " groups " + std::to_string(counts.size()));
      const std::vector<ExpertRows> groups = GroupsOf(counts);
      const int32_t rows = std::accumulate(counts.begin(), counts.end(), 0);
      const Weights weights(*device_, precision, static_cast<int32_t>(counts.size()), kOuts, kIns);
      const auto in = RandomMatrix(rows, kIns, 1);
      const auto quantized = Quantized(*device_, precision, in, rows, kIns);
      std::vector<float> out(static_cast<size_t>(rows * (kOuts + 3)), kNaN);
      const GroupedGemmParams params{.in = &quantized->activation,
                                     .weights = weights.list.data(),
                                     .num_groups = static_cast<int32_t>(counts.size()),
                                     .groups = groups.data(),
                                     .out = out.data(),
                                     .out_stride = kOuts + 3,
                                     .num_rows = rows};
      ASSERT_EQ(device_->ops->grouped_gemm(device_->context, params), KernelStatus::kOk);
      for (size_t g = 0; g < groups.size(); ++g) {
        for (int32_t i = 0; i < groups[g].count; ++i) {
          const int64_t row = groups[g].first + i;
          const float* of_row = in.data() + row * kIns;
          const auto alone = Quantized(*device_, precision, {of_row, of_row + kIns}, 1, kIns);
          const auto expected =
              RunGemm(*device_, alone->activation, weights.tensors[g]->weight, 1, weights.biases[g].data());
          const float* actual = out.data() + row * (kOuts + 3);
          ASSERT_EQ(std::memcmp(actual, expected.data(), kOuts * sizeof(float)), 0) << "row " << row;
          EXPECT_TRUE(std::isnan(actual[kOuts])) << "between the rows nothing is written";
          if (i == 0) {
            ASSERT_NO_FATAL_FAILURE(
                ExpectNearFp64(actual, precision, weights.values[g], weights.biases[g], of_row, kOuts, kIns));
          }
        }
      }
    }
  }
}

// Gated, and into the input of the next product: as gemm, for inputs that are rounded with whole rows and others.
TEST_P(GroupedProducts, FuseTheActivationAsGemmDoes) {
  constexpr int64_t kOuts = 38;
  constexpr int64_t kIns = 33;
  const std::vector<ExpertRows> groups = GroupsOf({4, 0, 9});
  constexpr int32_t kRows = 13;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp8, Precision::kInt4}) {
    SCOPED_TRACE(Name(precision));
    const Weights weights(*device_, precision, 3, kOuts, kIns, true);
    const auto in = RandomMatrix(kRows, kIns, 2);
    const auto quantized = Quantized(*device_, precision, in, kRows, kIns);
    const ActivationTensor next(*device_, precision, kRows, kOuts / 2);
    Activation to = next.activation;
    const GroupedGemmParams params{.in = &quantized->activation,
                                   .weights = weights.list.data(),
                                   .num_groups = 3,
                                   .groups = groups.data(),
                                   .out = nullptr,
                                   .out_stride = 0,
                                   .num_rows = kRows,
                                   .next = &to,
                                   .activation = ActivationKind::kSilu};
    ASSERT_EQ(device_->ops->grouped_gemm(device_->context, params), KernelStatus::kOk);
    for (int32_t row = 0; row < kRows; ++row) {
      const size_t g = row < 4 ? 0 : 2;
      const float* of_row = in.data() + row * kIns;
      const auto alone = Quantized(*device_, precision, {of_row, of_row + kIns}, 1, kIns);
      const ActivationTensor expected(*device_, precision, 1, kOuts / 2);
      Activation one = expected.activation;
      GemmParams product{&alone->activation, &weights.list[g].weight, weights.list[g].bias, nullptr, nullptr, 0, 1};
      product.next = &one;
      product.activation = ActivationKind::kSilu;
      ASSERT_EQ(device_->ops->gemm(device_->context, product), KernelStatus::kOk);
      ASSERT_EQ(StoredRow(*device_, to, row), StoredRow(*device_, one, 0)) << row;
    }
  }
}

TEST_P(GroupedProducts, RefuseWhatTheyCannotMultiply) {
  const Weights weights(*device_, Precision::kBf16, 2, 8, 16);
  const auto quantized = Quantized(*device_, Precision::kBf16, RandomMatrix(5, 16, 1), 5, 16);
  const std::vector<ExpertRows> groups = GroupsOf({2, 3});
  std::vector<float> out(5 * 8);
  const GroupedGemmParams good{.in = &quantized->activation,
                               .weights = weights.list.data(),
                               .num_groups = 2,
                               .groups = groups.data(),
                               .out = out.data(),
                               .out_stride = 8,
                               .num_rows = 5};
  const auto run = [&](const auto& change) {
    GroupedGemmParams params = good;
    change(params);
    return device_->ops->grouped_gemm(device_->context, params);
  };
  EXPECT_EQ(run([](GroupedGemmParams&) {}), KernelStatus::kOk);
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.in = nullptr; }), KernelStatus::kInvalidArgument) << "no input";
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.weights = nullptr; }), KernelStatus::kInvalidArgument) << "no weights";
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.groups = nullptr; }), KernelStatus::kInvalidArgument) << "no groups";
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.out = nullptr; }), KernelStatus::kInvalidArgument) << "no output";
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.out_stride = 7; }), KernelStatus::kInvalidArgument) << "rows overlap";
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.num_rows = 6; }), KernelStatus::kInvalidArgument) << "capacity";
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.num_rows = 4; }), KernelStatus::kInvalidArgument) << "sum of the counts";
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.num_groups = 0; }), KernelStatus::kInvalidArgument) << "no group";
  EXPECT_EQ(run([](GroupedGemmParams& p) { p.num_groups = kExpertsMax + 1; }), KernelStatus::kInvalidArgument);
  const std::vector<ExpertRows> overlapping = {{0, 2, 0}, {1, 3, 0}};
  EXPECT_EQ(run([&](GroupedGemmParams& p) { p.groups = overlapping.data(); }), KernelStatus::kInvalidArgument);
  std::vector<BiasedWeight> unlike = weights.list;
  unlike[1].bias = nullptr;
  EXPECT_EQ(run([&](GroupedGemmParams& p) { p.weights = unlike.data(); }), KernelStatus::kInvalidArgument) << "a bias";
  unlike = weights.list;
  unlike[1].weight.out_features = 7;
  EXPECT_EQ(run([&](GroupedGemmParams& p) { p.weights = unlike.data(); }), KernelStatus::kInvalidArgument) << "a shape";
}

TEST_P(GroupedProducts, OfBatchesHaveTheBitsOfAProductForEachBatch) {
  constexpr int32_t kBatches = 3;
  constexpr int64_t kOuts = 21;
  constexpr int64_t kIns = 40;
  constexpr int64_t kInStride = kBatches * (kIns + 2);
  constexpr int64_t kOutStride = kBatches * (kOuts + 1);
  for (const Precision precision : kPrecisions) {
    for (const int32_t rows : {1, 9, 66}) {
      SCOPED_TRACE(std::string(Name(precision)) + " rows " + std::to_string(rows));
      const Weights weights(*device_, precision, kBatches, kOuts, kIns);
      const auto in = RandomMatrix(rows, kInStride, 3);
      const ActivationTensor scratch(*device_, precision, rows, kIns);
      std::vector<float> out(static_cast<size_t>(rows * kOutStride), kNaN);
      const BatchedGemmParams params{.in = in.data(),
                                     .in_stride = kInStride,
                                     .in_batch_stride = kIns + 2,
                                     .rounded = &scratch.activation,
                                     .weights = weights.list.data(),
                                     .num_batches = kBatches,
                                     .out = out.data(),
                                     .out_stride = kOutStride,
                                     .out_batch_stride = kOuts + 1,
                                     .num_rows = rows};
      ASSERT_EQ(device_->ops->batched_gemm(device_->context, params), KernelStatus::kOk);
      for (int64_t row = 0; row < rows; ++row) {
        for (size_t b = 0; b < kBatches; ++b) {
          const float* of_row = in.data() + row * kInStride + static_cast<int64_t>(b) * (kIns + 2);
          const auto alone = Quantized(*device_, precision, {of_row, of_row + kIns}, 1, kIns);
          const auto expected =
              RunGemm(*device_, alone->activation, weights.tensors[b]->weight, 1, weights.biases[b].data());
          const float* actual = out.data() + row * kOutStride + static_cast<int64_t>(b) * (kOuts + 1);
          ASSERT_EQ(std::memcmp(actual, expected.data(), kOuts * sizeof(float)), 0) << row << ", " << b;
          EXPECT_TRUE(std::isnan(actual[kOuts])) << "between the batches nothing is written";
          if (row > 0) continue;
          ASSERT_NO_FATAL_FAILURE(
              ExpectNearFp64(actual, precision, weights.values[b], weights.biases[b], of_row, kOuts, kIns));
        }
      }
    }
  }
}

TEST_P(GroupedProducts, OfBatchesRefuseWhatTheyCannotMultiply) {
  const Weights weights(*device_, Precision::kBf16, 2, 8, 16);
  const ActivationTensor scratch(*device_, Precision::kBf16, 4, 16);
  const auto in = RandomMatrix(4, 32, 1);
  std::vector<float> out(4 * 16);
  const BatchedGemmParams good{.in = in.data(),
                               .in_stride = 32,
                               .in_batch_stride = 16,
                               .rounded = &scratch.activation,
                               .weights = weights.list.data(),
                               .num_batches = 2,
                               .out = out.data(),
                               .out_stride = 16,
                               .out_batch_stride = 8,
                               .num_rows = 4};
  const auto run = [&](const auto& change) {
    BatchedGemmParams params = good;
    change(params);
    return device_->ops->batched_gemm(device_->context, params);
  };
  EXPECT_EQ(run([](BatchedGemmParams&) {}), KernelStatus::kOk);
  EXPECT_EQ(run([](BatchedGemmParams& p) { p.in = nullptr; }), KernelStatus::kInvalidArgument) << "no input";
  EXPECT_EQ(run([](BatchedGemmParams& p) { p.rounded = nullptr; }), KernelStatus::kInvalidArgument) << "no scratch";
  EXPECT_EQ(run([](BatchedGemmParams& p) { p.weights = nullptr; }), KernelStatus::kInvalidArgument) << "no weights";
  EXPECT_EQ(run([](BatchedGemmParams& p) { p.num_batches = 0; }), KernelStatus::kInvalidArgument) << "no batch";
  EXPECT_EQ(run([](BatchedGemmParams& p) { p.num_rows = 5; }), KernelStatus::kInvalidArgument) << "capacity";
  EXPECT_EQ(run([](BatchedGemmParams& p) { p.in_stride = 15; }), KernelStatus::kInvalidArgument) << "rows overlap";
  EXPECT_EQ(run([](BatchedGemmParams& p) { p.out_stride = 7; }), KernelStatus::kInvalidArgument) << "rows overlap";
  EXPECT_EQ(run([](BatchedGemmParams& p) { p.out = nullptr; }), KernelStatus::kInvalidArgument) << "no output";
}

TEST_P(GroupedProducts, RowsAreQuantizedInTheOrderThatIsGiven) {
  const auto in = RandomMatrix(4, 20, 5);
  const std::vector<int32_t> rows = {3, 0, 3, 1, 2};
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp8}) {
    const ActivationTensor picked(*device_, precision, 5, 20);
    Activation to = picked.activation;
    const QuantizeParams params{.in = in.data(), .in_stride = 20, .out = &to, .num_rows = 5, .rows = rows.data()};
    ASSERT_EQ(device_->ops->quantize(device_->context, params), KernelStatus::kOk);
    const auto all = Quantized(*device_, precision, in, 4, 20);
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(StoredRow(*device_, to, static_cast<int64_t>(i)), StoredRow(*device_, all->activation, rows[i]));
    }
  }
}

DUNLIN_FOR_EVERY_CPU_VARIANT(GroupedProducts);

}  // namespace
}  // namespace dunlin::kernels
