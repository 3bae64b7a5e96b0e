// SPDX-License-Identifier: Apache-2.0
// Products of low-rank adapters on a device next to the CPU device.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "tests/kernels/loader/device_products.h"
#include "tests/kernels/low_rank/low_rank_problem.h"

namespace dunlin::kernels {
namespace {

class DeviceLowRankTest : public DeviceTest {};

constexpr int32_t kLowRankIns = 200;
constexpr int32_t kLowRankOuts = 333;
constexpr int32_t kLowRankRows = 90;

using testing::LowRankAdapter;
using Rows = std::vector<std::vector<int32_t>>;  // of each adapter

std::vector<LowRankAdapter> MakeAdapters() {
  std::vector<LowRankAdapter> adapters(3);
  adapters[0].Add(16, kLowRankIns, 0, 130, DType::kBF16, 10);
  adapters[0].Add(5, kLowRankIns, 130, 70, DType::kF32, 20);
  adapters[1].Add(33, kLowRankIns, 3, 330, DType::kF16, 30);
  adapters[2].Add(1, kLowRankIns, 332, 1, DType::kBF16, 40);
  return adapters;
}

// Adapters with their matrices in the device's memory.
struct OnDevice {
  OnDevice(Device& device, std::vector<LowRankAdapter> on_host) : adapters(std::move(on_host)) {
    for (LowRankAdapter& adapter : adapters) {
      for (size_t i = 0; i < adapter.pairs.size(); ++i) {
        adapter.pairs[i].down = memory.emplace_back(device, adapter.down[i].stored).data();
        adapter.pairs[i].up = memory.emplace_back(device, adapter.up[i].stored).data();
      }
    }
  }
  std::vector<LowRankAdapter> adapters;
  std::deque<Array<std::byte>> memory;
};

std::vector<float> Added(Device& device, const Rows& rows) {
  const OnDevice on_device(device, MakeAdapters());
  const testing::LowRankUses uses(on_device.adapters, rows);
  const Array<float> in(device, Random(int64_t{kLowRankRows} * kLowRankIns, 1));
  const Array<float> out(device, Random(int64_t{kLowRankRows} * kLowRankOuts, 2));
  const Array<float> scratch(device, std::vector<float>(uses.scratch_floats));
  const AddLowRankParams params{.in = in.data(),
                                .in_stride = kLowRankIns,
                                .in_features = kLowRankIns,
                                .uses = uses.list.data(),
                                .num_uses = static_cast<int32_t>(uses.list.size()),
                                .out = out.data(),
                                .out_stride = kLowRankOuts,
                                .scratch = scratch.data()};
  EXPECT_EQ(device.ops->add_low_rank(device.context, params), KernelStatus::kOk);
  return out.Read();
}

// A prompt of 50 rows of one adapter, and rows of others between them.
Rows MixedRows() {
  Rows rows(3);
  for (int32_t row = 0; row < kLowRankRows; ++row) {
    if (row >= 20 && row < 70) {
      rows[0].push_back(row);
    } else if (row % 4 != 0) {
      rows[static_cast<size_t>(row % 4 - 1)].push_back(row);
    }
  }
  return rows;
}

TEST_P(DeviceLowRankTest, AdaptersAddWhatTheCpuAdds) {
  EXPECT_TRUE(device_->ops->supports_model({.adapters = true}, nullptr));
  ExpectNear(Added(*device_, MixedRows()), Added(*cpu_, MixedRows()), 2e-3, 1e-5, "adapters");
}

TEST_P(DeviceLowRankTest, ARowHasTheBitsThatItHasAlone) {
  const Rows rows = MixedRows();
  const std::vector<float> together = Added(*device_, rows);
  for (size_t adapter = 0; adapter < rows.size(); ++adapter) {
    for (const size_t i : {size_t{0}, rows[adapter].size() / 2, rows[adapter].size() - 1}) {
      Rows one(rows.size());
      one[adapter] = {rows[adapter][i]};
      const std::vector<float> alone = Added(*device_, one);
      const auto at = static_cast<size_t>(one[adapter].front() * kLowRankOuts);
      EXPECT_EQ(std::memcmp(&alone[at], &together[at], kLowRankOuts * sizeof(float)), 0) << one[adapter].front();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceLowRankTest, ::testing::Values(DUNLIN_MODULE_DIR "/libfake_cuda.so"));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceLowRankTest, ::testing::Values(DUNLIN_CUDA_MODULE));
#endif

}  // namespace
}  // namespace dunlin::kernels
