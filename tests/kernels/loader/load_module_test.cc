// SPDX-License-Identifier: Apache-2.0
#include "kernels/loader/load_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "kernels/api/device_module.h"
#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::kernels {
namespace {

using ::testing::HasSubstr;

std::string ModulePath(const std::string& name) {
  return std::string(DUNLIN_MODULE_DIR "/lib") + name + ".so";
}

std::string Refusal(const std::string& path) {
  std::string error;
  DeviceOptions options;
  options.cuda_module = path;
  const auto device = OpenDevice(DeviceKind::kCuda, options, &error);
  EXPECT_EQ(device, nullptr) << path;
  return error;
}

std::unique_ptr<Device> OpenFake() {
  std::string error;
  DeviceOptions options;
  options.cuda_module = ModulePath("fake_cuda");
  options.cublas_library = "x";
  auto device = OpenDevice(DeviceKind::kCuda, options, &error);
  EXPECT_NE(device, nullptr) << error;
  return device;
}

TEST(LoadModule, OpensADeviceAndForwardsTheOptions) {
  const auto device = OpenFake();
  EXPECT_EQ(device->ops->kind, DeviceKind::kCuda);
  EXPECT_EQ(device->description, "cuda (fake, cublas \"x\")");
  EXPECT_NE(device->close, nullptr);
  EXPECT_THAT(MissingEntries(*device->ops), ::testing::IsEmpty());
}

TEST(LoadModule, TellsWhatADeviceDoesWithout) {
  EXPECT_EQ(OpenFake()->warning, "");
  std::string error;
  DeviceOptions options;
  options.cuda_module = ModulePath("fake_cuda");
  options.sm90_kernels = false;
  const auto device = OpenDevice(DeviceKind::kCuda, options, &error);
  ASSERT_NE(device, nullptr) << error;
  EXPECT_EQ(device->warning, "sm_90 kernels are off");
}

TEST(LoadModule, PassesOnWhetherStepsAreRecorded) {
  for (const bool on : {true, false}) {
    std::string error;
    DeviceOptions options;
    options.cuda_module = ModulePath("fake_cuda");
    options.cuda_graphs = on;
    const auto device = OpenDevice(DeviceKind::kCuda, options, &error);
    ASSERT_NE(device, nullptr) << error;
    EXPECT_EQ(device->ops->supports_graphs(device->context), on);
  }
}

TEST(LoadModule, RefusesModulesOfOtherBuilds) {
  EXPECT_THAT(Refusal(""), HasSubstr("no CUDA module is given"));
  EXPECT_THAT(Refusal("/nowhere/libdunlin_cuda.so"), HasSubstr("cannot be loaded: /nowhere/libdunlin_cuda.so"));
  EXPECT_THAT(Refusal(ModulePath("broken_entry")), HasSubstr("exports no dunlin_device_module"));
  EXPECT_THAT(Refusal(ModulePath("broken_abi")), HasSubstr("has module ABI 3; this binary has 2"));
  EXPECT_THAT(Refusal(ModulePath("broken_digest")), HasSubstr("belongs to another build"));
}

TEST(LoadModule, RefusesAnIncompleteTableBeforeOpening) {
  const std::string error = Refusal(ModulePath("broken_table"));
  EXPECT_THAT(error, HasSubstr("is not complete: it lacks allocate, release,"));
  EXPECT_THAT(error, HasSubstr("dense_attention"));
}

TEST(LoadModule, NamesEveryEntryThatATableLacks) {
  DeviceOps ops = *OpenFake()->ops;
  EXPECT_THAT(MissingEntries(ops), ::testing::IsEmpty());
  ops.gemm = nullptr;
  ops.softcap = nullptr;
  EXPECT_THAT(MissingEntries(ops), ::testing::ElementsAre("gemm", "softcap"));
  EXPECT_EQ(MissingEntries(DeviceOps{}).size(), sizeof(DeviceOps) / sizeof(void*) - 3);
}

TEST(LoadModule, ForwardsTheModulesReason) {
  setenv(kFakeOpenError, "no CUDA driver", 1);
  EXPECT_EQ(Refusal(ModulePath("fake_cuda")), "no CUDA driver");
  unsetenv(kFakeOpenError);
}

TEST(FakeCuda, MemoryIsReachableByCopiesOnly) {
  const auto device = OpenFake();
  const int source[3] = {1, 2, 3};
  int target[3] = {};
  auto* memory = static_cast<int*>(device->ops->allocate(device->context, sizeof(source)));
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(device->ops->copy_to_device(device->context, memory, source, sizeof(source)), KernelStatus::kOk);
  EXPECT_EQ(device->ops->copy_to_host(device->context, target, memory + 1, 2 * sizeof(int)), KernelStatus::kOk);
  EXPECT_EQ(target[1], 3);
  EXPECT_EQ(device->ops->copy_to_host(device->context, target, source, sizeof(int)), KernelStatus::kInvalidArgument);
  EXPECT_DEATH(EXPECT_EQ(*const_cast<const volatile int*>(memory), 1), "");
  device->ops->release(device->context, memory, sizeof(source));
}

TEST(FakeCuda, RefusesHostMemoryInAnOperation) {
  const auto device = OpenFake();
  float host[4] = {1, 2, 3, 4};
  const SoftcapParams on_host{.values = host, .cap = 1.0F, .num_rows = 1, .columns = 4};
  EXPECT_EQ(device->ops->softcap(device->context, on_host), KernelStatus::kInvalidArgument);
}

TEST(FakeCuda, FailsPermanently) {
  const auto device = OpenFake();
  const std::string file = "/tmp/dunlin_fake_fail_" + std::to_string(getpid());
  setenv(kFakeFailFile, file.c_str(), 1);
  EXPECT_EQ(device->ops->synchronize(device->context), KernelStatus::kOk);
  std::ofstream(file) << "now";
  EXPECT_EQ(device->ops->synchronize(device->context), KernelStatus::kDeviceError);
  std::remove(file.c_str());
  EXPECT_EQ(device->ops->synchronize(device->context), KernelStatus::kDeviceError);
  unsetenv(kFakeFailFile);
}

}  // namespace
}  // namespace dunlin::kernels
