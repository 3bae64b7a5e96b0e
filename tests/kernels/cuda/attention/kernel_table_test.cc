// SPDX-License-Identifier: Apache-2.0
// The rows of attention kernels: what a device supports is what FindKernel has a row for, and special rows are taken
// before general ones.
#include <gtest/gtest.h>

#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/support.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr DeviceShape kDevices[] = {
    {108, 163 * 1024, 80}, {84, 99 * 1024, 86}, {132, 227 * 1024, 90}, {148, 227 * 1024, 100}, {170, 99 * 1024, 120}};

AttentionTraits Traits(DType dtype, int32_t head_dim, bool bias) {
  AttentionTraits traits{.dtype = dtype, .head_dim = head_dim, .num_heads = 8, .num_kv_heads = 2};
  traits.bias = bias;
  return traits;
}

TEST(AttentionKernelTable, SupportIsAKernelForEveryPhase) {
  for (const DeviceShape& device : kDevices) {
    for (const AttentionBackend backend : testing::kBackends) {
      for (const DType dtype : testing::kKvDTypes) {
        for (const int32_t head_dim : {8, 64, 65, 128, 192, 256, 257, 576}) {
          for (const bool bias : {false, true}) {
            const AttentionTraits traits = Traits(dtype, head_dim, bias);
            const bool supported = SupportsAttentionOn(device, backend, traits, nullptr);
            for (const AttentionPhase phase : kAttentionPhases) {
              EXPECT_EQ(FindKernel(AttentionKernels(), device, backend, phase, traits) != nullptr, supported)
                  << Name(backend) << " " << Name(dtype) << " " << head_dim << " sm_" << device.sm_version;
            }
          }
        }
      }
    }
  }
}

// Plain calls, and those with a soft cap, of traits that rows differ by.
TEST(AttentionKernelTable, EveryRowIsTakenOnSomeDevice) {
  alignas(16) static float out[4];
  std::vector<std::pair<AttentionTraits, AttentionCall>> calls;
  for (const DType dtype : testing::kKvDTypes) {
    for (const int32_t head_dim : {64, 128, 256, 320, 576}) {
      if (dtype == DType::kF8E4M3 && head_dim == 576) continue;
      testing::PagedBatch batch(dtype, {8, 2, head_dim, head_dim == 576 ? 512 : 0}, {{1, 0, 2}}, 1,
                                testing::kCudaPages);
      for (const float softcap : {0.0F, 1.0F}) {
        batch.softcap = softcap;
        const PagedAttentionParams params = batch.Params(AttentionBackend::kFlash, out);
        calls.emplace_back(TraitsOf(params), CallOf(params));
      }
    }
  }
  for (const AttentionKernel& row : AttentionKernels()) {
    bool taken = false;
    for (const DeviceShape& device : kDevices) {
      for (const auto& [traits, call] : calls) {
        for (const AttentionPhase phase : kAttentionPhases) {
          taken |= FindKernel(AttentionKernels(), device, row.backend, phase, traits, &call) == &row;
        }
      }
    }
    EXPECT_TRUE(taken) << Name(row.backend) << " " << row.limits.max_head_dim << " of " << row.geometry.stages;
  }
}

// A row of one architecture, phase and geometry stands before the general one and takes its calls alone.
TEST(AttentionKernelTable, ASpecialRowTakesItsCallsAlone) {
  const AttentionKernel general = *FindKernel(AttentionKernels(), kDevices[0], AttentionBackend::kFlash,
                                              AttentionPhase::kPrefill, Traits(DType::kBF16, 256, false));
  AttentionKernel hopper = general;
  hopper.phases = Bit(AttentionPhase::kPrefill);
  hopper.sm_min = hopper.sm_max = 90;
  hopper.dtypes = Bit(DType::kBF16);
  hopper.limits.max_head_dim = 128;
  hopper.geometry.threads = 384;
  hopper.geometry.rows = 128;
  const AttentionKernel rows[] = {hopper, general};
  const auto takes_hopper = [&](const DeviceShape& device, AttentionPhase phase, DType dtype, int32_t head_dim) {
    return FindKernel(rows, device, AttentionBackend::kFlash, phase, Traits(dtype, head_dim, false)) == &rows[0];
  };
  EXPECT_TRUE(takes_hopper(kDevices[2], AttentionPhase::kPrefill, DType::kBF16, 128));
  EXPECT_FALSE(takes_hopper(kDevices[2], AttentionPhase::kDecode, DType::kBF16, 128));
  EXPECT_FALSE(takes_hopper(kDevices[2], AttentionPhase::kPrefill, DType::kF8E4M3, 128));
  EXPECT_FALSE(takes_hopper(kDevices[2], AttentionPhase::kPrefill, DType::kBF16, 192));
  EXPECT_FALSE(takes_hopper(kDevices[0], AttentionPhase::kPrefill, DType::kBF16, 128));
  EXPECT_FALSE(takes_hopper(kDevices[3], AttentionPhase::kPrefill, DType::kBF16, 128));
}

// A block's rows are those of the row's geometry, in the grid and in the parts.
TEST(AttentionKernelTable, GeometrySizesTheGrid) {
  AttentionCall call{};
  call.num_sequences = 2;
  call.num_heads = call.num_kv_heads = 4;
  call.group = 1;
  call.values.dim = 128;
  call.max_query_tokens = 100;
  call.max_kv_tokens = 5000;
  for (const int32_t rows : {64, 128}) {
    const BlockGeometry geometry{
        .threads = 384, .rows = rows, .columns = 0, .part_keys = 512, .stages = 2, .shared_bytes = 0};
    LaunchPlan plan;
    PlanGrid(geometry, call, &plan);
    EXPECT_EQ(plan.row_blocks, rows == 64 ? 2 : 1);
    EXPECT_EQ(plan.blocks, 8 * plan.row_blocks);
    EXPECT_EQ(PartBytes(geometry, call, kDevices[2]) != 0, rows == 128) << "one block has all rows of a task";
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
