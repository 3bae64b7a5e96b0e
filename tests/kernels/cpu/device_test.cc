// SPDX-License-Identifier: Apache-2.0
#include "kernels/api/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/api/backing_unit.h"

namespace dunlin::kernels {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// The names as one line. .ci/skipped_tests reads both properties.
TEST(OpenDevice, ReportsTheVariantsThatThisProcessorRunsAndAllOthers) {
  std::string run;
  for (const std::string& variant : AvailableCpuVariants()) run += variant + " ";
  std::string known;
  EXPECT_EQ(OpenDevice(DeviceKind::kCpu, {1, "no such variant"}, &known), nullptr);
  const std::string before = "this build has ";
  ASSERT_THAT(known, HasSubstr(before));
  known.erase(0, known.find(before) + before.size());  // "a", "b", ...
  known.erase(std::remove_if(known.begin(), known.end(), [](char c) { return c == '"' || c == ','; }), known.end());
  EXPECT_THAT(known, HasSubstr("portable"));
  RecordProperty("cpu_variants_run", run);
  RecordProperty("cpu_variants_known", known);
}

TEST(OpenDevice, OpensEveryAvailableVariantAndSaysSo) {
  for (const std::string& variant : AvailableCpuVariants()) {
    std::string error;
    const auto device = OpenDevice(DeviceKind::kCpu, {3, variant}, &error);
    ASSERT_NE(device, nullptr) << error;
    EXPECT_EQ(device->description, "cpu (" + variant + ", 3 threads)");
    EXPECT_EQ(device->ops->kind, DeviceKind::kCpu);
  }
}

TEST(OpenDevice, PortableIsAlwaysAvailableAndLast) {
  EXPECT_EQ(AvailableCpuVariants().back(), "portable");
}

TEST(OpenDevice, DefaultsToTheBestVariantAndAllUsableThreads) {
  std::string error;
  const auto device = OpenDevice(DeviceKind::kCpu, {}, &error);
  ASSERT_NE(device, nullptr) << error;
  EXPECT_THAT(device->description, HasSubstr("cpu (" + AvailableCpuVariants().front() + ", "));
}

TEST(OpenDevice, EveryEntryOfTheTableIsFilled) {
  std::string error;
  const auto device = OpenDevice(DeviceKind::kCpu, {1, "portable"}, &error);
  ASSERT_NE(device, nullptr) << error;
  const DeviceOps& ops = *device->ops;
  EXPECT_TRUE(ops.allocate && ops.release && ops.copy_to_device && ops.copy_to_host && ops.synchronize);
  EXPECT_TRUE(ops.packed_weight_bytes && ops.pack_weight && ops.activation_bytes && ops.gemm && ops.gather_rows);
  EXPECT_TRUE(ops.norm && ops.quantize && ops.activate && ops.rotary_table && ops.rotate_and_store_kv);
  EXPECT_TRUE(ops.supports_attention && ops.paged_attention_workspace && ops.paged_attention);
  EXPECT_TRUE(ops.dense_attention_workspace && ops.dense_attention);
  EXPECT_TRUE(ops.allocate_host && ops.release_host && ops.memory && ops.sample_workspace && ops.sample &&
              ops.take_drawn && ops.update_delayed_scaling);
  EXPECT_TRUE(ops.create_event && ops.destroy_event && ops.record_event && ops.wait_event);
}

TEST(OpenDevice, RefusesWithAReason) {
  std::string error;
  EXPECT_EQ(OpenDevice(DeviceKind::kCpu, {1, "sse9"}, &error), nullptr);
  EXPECT_THAT(error, HasSubstr("unknown CPU variant \"sse9\""));
  EXPECT_EQ(OpenDevice(DeviceKind::kCpu, {-1, ""}, &error), nullptr);
  EXPECT_THAT(error, HasSubstr("number of compute threads is -1"));
  EXPECT_EQ(OpenDevice(DeviceKind::kCuda, {}, &error), nullptr);
  EXPECT_THAT(error, HasSubstr("no CUDA module is given"));
  const auto available = AvailableCpuVariants();
  if (std::find(available.begin(), available.end(), "avx512") == available.end()) {
    EXPECT_EQ(OpenDevice(DeviceKind::kCpu, {1, "avx512"}, &error), nullptr);
    EXPECT_THAT(error, AnyOf(HasSubstr("this processor cannot run"), HasSubstr("this build has")));
  }
}

TEST(DeviceMemory, IsZeroedAndAligned) {
  std::string error;
  const auto device = OpenDevice(DeviceKind::kCpu, {1, ""}, &error);
  ASSERT_NE(device, nullptr) << error;
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{4096}, size_t{5} << 20}) {
    auto* memory = static_cast<uint8_t*>(device->ops->allocate(device->context, bytes));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0U);
    EXPECT_TRUE(std::all_of(memory, memory + bytes, [](uint8_t byte) { return byte == 0; }));
    std::fill_n(memory, bytes, uint8_t{1});
    device->ops->release(device->context, memory, bytes);
  }
  EXPECT_EQ(device->ops->allocate(device->context, 0), nullptr);
  EXPECT_EQ(device->ops->allocate(device->context, SIZE_MAX), nullptr);
  device->ops->release(device->context, nullptr, 100);
}

TEST(DeviceMemory, IsBackedPartByPart) {
  std::string error;
  const auto device = OpenDevice(DeviceKind::kCpu, {1, ""}, &error);
  ASSERT_NE(device, nullptr) << error;
  const DeviceOps& ops = *device->ops;
  EXPECT_EQ(ops.reserve(device->context, size_t{1} << 20), nullptr) << "too little for pages of its own";
  EXPECT_EQ(ops.reserve(device->context, SIZE_MAX), nullptr);
  constexpr size_t kBytes = (size_t{9} << 20) + 100;
  auto* memory = static_cast<uint8_t*>(ops.reserve(device->context, kBytes));
  ASSERT_NE(memory, nullptr);
  for (const auto& [first, end] :
       {std::pair<size_t, size_t>{0, kBackingUnit}, {kBackingUnit, size_t{5} << 20}, {size_t{5} << 20, kBytes}}) {
    ASSERT_TRUE(ops.back(device->context, memory + first, end - first));
    EXPECT_TRUE(std::all_of(memory + first, memory + end, [](uint8_t byte) { return byte == 0; }));
    std::fill(memory + first, memory + end, uint8_t{1});
  }
  EXPECT_TRUE(std::all_of(memory, memory + kBytes, [](uint8_t byte) { return byte == 1; }))
      << "what was backed is kept";
  ops.release(device->context, memory, kBytes);
}

TEST(DeviceMemory, ThatTheSystemDoesNotHaveIsRefused) {
  std::string error;
  const auto device = OpenDevice(DeviceKind::kCpu, {1, ""}, &error);
  ASSERT_NE(device, nullptr) << error;
  constexpr size_t kBytes = size_t{16} << 20;
  auto* memory = static_cast<uint8_t*>(device->ops->reserve(device->context, kBytes));
  ASSERT_NE(memory, nullptr);
  // A hole in the addresses, as memory that the kernel cannot give, is ENOMEM.
  uint8_t* const hole = memory + (size_t{6} << 20);
  ASSERT_EQ(munmap(hole, kBackingUnit), 0);
  if (madvise(hole, kBackingUnit, MADV_POPULATE_WRITE) == 0) {
    device->ops->release(device->context, memory, kBytes);
    GTEST_SKIP() << "advice on memory is ignored here, as by qemu-user";
  }
  EXPECT_TRUE(device->ops->back(device->context, memory, size_t{4} << 20));
  EXPECT_FALSE(device->ops->back(device->context, memory + (size_t{4} << 20), size_t{4} << 20));
  EXPECT_EQ(memory[0], 0) << "what was backed before is kept";
  device->ops->release(device->context, memory, kBytes);
}

TEST(DeviceMemory, CopiesBothWays) {
  std::string error;
  const auto device = OpenDevice(DeviceKind::kCpu, {1, ""}, &error);
  ASSERT_NE(device, nullptr) << error;
  const int source[3] = {1, 2, 3};
  int target[3] = {};
  void* memory = device->ops->allocate(device->context, sizeof(source));
  EXPECT_EQ(device->ops->copy_to_device(device->context, memory, source, sizeof(source)), KernelStatus::kOk);
  EXPECT_EQ(device->ops->synchronize(device->context), KernelStatus::kOk);
  EXPECT_EQ(device->ops->copy_to_host(device->context, target, memory, sizeof(target)), KernelStatus::kOk);
  EXPECT_EQ(target[2], 3);
  EXPECT_EQ(device->ops->copy_to_host(device->context, nullptr, memory, 4), KernelStatus::kInvalidArgument);
  device->ops->release(device->context, memory, sizeof(source));
}

}  // namespace
}  // namespace dunlin::kernels
