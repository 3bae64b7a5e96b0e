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

// One weight for each group, at equal distances as a model's lie.
struct Weights {
  Weights(Device& device, Precision precision, int32_t count, int32_t outs = kGroupOuts)
      : bias(device, Random(int64_t{outs} * count, 3)),
        bytes((device.ops->packed_weight_bytes(Traits(precision).format, outs, kGroupIns, 0) + 63) / 64 * 64),
        memory(device, Bytes(bytes * static_cast<size_t>(count))) {
    for (int32_t i = 0; i < count; ++i) {
      const PackedWeight packed{memory.data() + bytes * static_cast<size_t>(i), precision, outs, kGroupIns, 0};
      PackInto(device, packed, Random(int64_t{outs} * kGroupIns, static_cast<uint32_t>(100 + i)));
      list.push_back({packed, bias.data() + int64_t{outs} * i});
    }
  }
  const Array<float> bias;
  const size_t bytes;
  const Array<unsigned char> memory;
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

// Of gated weights in place of FP32 rows: the bytes of the activation.
TEST_P(DeviceGroupsTest, GatesOfGroupsHaveTheBytesOfTheirActivation) {
  constexpr int32_t kGates = 32;
  const std::vector<ExpertRows> rows_of = {{0, 3, 0}, {3, 0, 0}, {3, 1, 0}, {4, 70, 0}};
  const DeviceOps& ops = *device_->ops;
  int fused = 0;
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    SCOPED_TRACE(Name(precision));
    Weights weights(*device_, precision, 4, 2 * kGates);
    for (BiasedWeight& weight : weights.list) weight.weight.gated = true;
    const Array<ExpertRows> groups(*device_, rows_of);
    const Array<float> in_rows(*device_, Random(74 * kGroupIns, 5));
    Input input(*device_, precision, 74, kGroupIns);
    ASSERT_EQ(ops.quantize(device_->context, {in_rows.data(), kGroupIns, &input.activation, 74, nullptr}),
              KernelStatus::kOk);
    const Array<float> sums(*device_, std::vector<float>(size_t{74} * 2 * kGates));
    Input together(*device_, precision, 74, kGates);
    Input apart(*device_, precision, 74, kGates);
    GroupedGemmParams params{.in = &input.activation,
                             .weights = weights.list.data(),
                             .num_groups = 4,
                             .groups = groups.data(),
                             .out = sums.data(),
                             .out_stride = 2 * kGates,
                             .num_rows = 74};
    ASSERT_EQ(ops.grouped_gemm(device_->context, params), KernelStatus::kOk);
    const ActivateParams activate{ActivationKind::kSilu, true, sums.data(), &apart.activation, 74};
    ASSERT_EQ(ops.activate(device_->context, activate), KernelStatus::kOk);
    GemmParams of_one{};
    of_one.in = &input.activation;
    of_one.weight = &weights.list[0].weight;
    of_one.num_rows = 74;
    of_one.next = params.next = &together.activation;
    of_one.activation = params.activation = ActivationKind::kSilu;
    params.out = nullptr;
    if (!ops.gemm_fuses(device_->context, of_one)) continue;
    const KernelStatus status = ops.grouped_gemm(device_->context, params);
    if (status == KernelStatus::kUnsupported) continue;
    ASSERT_EQ(status, KernelStatus::kOk);
    ++fused;
    EXPECT_EQ(Values(*device_, together.activation, 74), Values(*device_, apart.activation, 74));
  }
  if (fused == 0) GTEST_SKIP() << "the device fuses no gates";
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

INSTANTIATE_TEST_SUITE_P(Fake, DeviceGroupsTest, ::testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceGroupsTest, ::testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
