// SPDX-License-Identifier: Apache-2.0
// Products of several matrices on a device next to the CPU device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/loader/device_products.h"

namespace dunlin::kernels {
namespace {

class DeviceGroupsTest : public DeviceTest {};

constexpr int32_t kGroupOuts = 70;
constexpr int32_t kGroupIns = 96;

// One weight for each group.
struct Weights {
  Weights(Device& device, Precision precision, int32_t count) : bias(device, Random(kGroupOuts, 3)) {
    for (int32_t i = 0; i < count; ++i) {
      weights.push_back(std::make_unique<Weight>(
          device, precision, Random(kGroupOuts * kGroupIns, static_cast<uint32_t>(100 + i)), kGroupOuts, kGroupIns));
      list.push_back({weights.back()->packed, bias.data()});
    }
  }
  const Array<float> bias;
  std::vector<std::unique_ptr<Weight>> weights;
  std::vector<BiasedWeight> list;
};

std::vector<float> Grouped(Device& device, Precision precision, const std::vector<int32_t>& counts,
                           const std::vector<float>& in) {
  std::vector<ExpertRows> rows_of;
  int32_t rows = 0;
  for (const int32_t count : counts) {
    rows_of.push_back({rows, count, 0});
    rows += count;
  }
  const Weights weights(device, precision, static_cast<int32_t>(counts.size()));
  const Array<ExpertRows> groups(device, rows_of);
  const Array<float> in_rows(device, in);
  const Array<int32_t> order(device, [&] {
    std::vector<int32_t> reversed(static_cast<size_t>(rows));
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    return reversed;
  }());
  Input input(device, precision, rows, kGroupIns);
  EXPECT_EQ(device.ops->quantize(device.context, {in_rows.data(), kGroupIns, &input.activation, rows, order.data()}),
            KernelStatus::kOk);
  const Array<float> out(device, std::vector<float>(static_cast<size_t>(rows * kGroupOuts)));
  const GroupedGemmParams params{.in = &input.activation,
                                 .weights = weights.list.data(),
                                 .num_groups = static_cast<int32_t>(counts.size()),
                                 .groups = groups.data(),
                                 .out = out.data(),
                                 .out_stride = kGroupOuts,
                                 .num_rows = rows};
  EXPECT_EQ(device.ops->grouped_gemm(device.context, params), KernelStatus::kOk);
  return out.Read();
}

std::vector<float> Batched(Device& device, Precision precision, int32_t batches, int32_t rows, int32_t capacity,
                           const std::vector<float>& in) {
  const Weights weights(device, precision, batches);
  const Array<float> in_rows(device, in);
  const Input scratch(device, precision, capacity, kGroupIns);
  const Array<float> out(device, std::vector<float>(static_cast<size_t>(rows * batches * kGroupOuts)));
  const BatchedGemmParams params{.in = in_rows.data(),
                                 .in_stride = batches * kGroupIns,
                                 .in_batch_stride = kGroupIns,
                                 .rounded = &scratch.activation,
                                 .weights = weights.list.data(),
                                 .num_batches = batches,
                                 .out = out.data(),
                                 .out_stride = batches * kGroupOuts,
                                 .out_batch_stride = kGroupOuts,
                                 .num_rows = rows};
  EXPECT_EQ(device.ops->batched_gemm(device.context, params), KernelStatus::kOk);
  return out.Read();
}

// Inputs round alike on both devices, except FP16's, which the CPU keeps in FP32.
double BoundOf(Precision precision) {
  return 4 * (precision == Precision::kFp16 ? StepOf(precision) : 1e-4) * std::sqrt(kGroupIns);
}

TEST_P(DeviceGroupsTest, GroupedProductsMatchTheCpus) {
  for (const Precision precision : kAllPrecisions) {
    for (const std::vector<int32_t>& counts :
         {std::vector<int32_t>{3, 0, 1, 29}, {0, 0, 5}, {1}, {0, 200, 0}, std::vector<int32_t>(130, 1)}) {
      SCOPED_TRACE(std::string(Name(precision)) + " groups " + std::to_string(counts.size()));
      const std::vector<float> in = Random(int64_t{std::accumulate(counts.begin(), counts.end(), 0)} * kGroupIns, 5);
      ExpectNear(Grouped(*device_, precision, counts, in), Grouped(*cpu_, precision, counts, in), BoundOf(precision),
                 1e-4, "grouped product");
    }
  }
}

TEST_P(DeviceGroupsTest, AGroupedRowDoesNotDependOnTheRowsNextToIt) {
  for (const Precision precision : kAllPrecisions) {
    const std::vector<float> in = Random(80 * kGroupIns, 5);
    const std::vector<float> last(in.end() - kGroupIns, in.end());  // the rows are reversed, so that it is the first
    const std::vector<float> alone = Grouped(*device_, precision, {1, 0}, last);
    const std::vector<float> among = Grouped(*device_, precision, {50, 30}, in);
    EXPECT_EQ(std::memcmp(alone.data(), among.data(), kGroupOuts * sizeof(float)), 0) << Name(precision);
  }
}

TEST_P(DeviceGroupsTest, BatchedProductsMatchTheCpusWithAnyScratch) {
  constexpr int32_t kBatches = 5;
  for (const Precision precision : kAllPrecisions) {
    for (const int32_t rows : {1, 33}) {
      SCOPED_TRACE(std::string(Name(precision)) + " rows " + std::to_string(rows));
      const std::vector<float> in = Random(rows * kBatches * kGroupIns, 6);
      const std::vector<float> cpu = Batched(*cpu_, precision, kBatches, rows, rows, in);
      const std::vector<float> one = Batched(*device_, precision, kBatches, rows, rows, in);
      ExpectNear(one, cpu, BoundOf(precision), 1e-4, "batched product");
      EXPECT_EQ(Batched(*device_, precision, kBatches, rows, 2 * rows + 1, in), one);
      EXPECT_EQ(Batched(*device_, precision, kBatches, rows, kBatches * rows, in), one);
    }
  }
}

TEST_P(DeviceGroupsTest, ModelsWithExpertsAndLatentRowsAreSupported) {
  std::vector<std::string> reasons;
  EXPECT_TRUE(device_->ops->supports_model({.experts = true, .latent_rows = true}, &reasons));
  EXPECT_TRUE(reasons.empty());
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceGroupsTest, testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceGroupsTest, testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
