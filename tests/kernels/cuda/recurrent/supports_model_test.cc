// SPDX-License-Identifier: Apache-2.0
// The models that libdunlin_cuda.so serves, by its table.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/api/device_module.h"

namespace dunlin::kernels::cuda {
namespace {

TEST(CudaModule, ServesRecurrentModelsButForWideStates) {
  void* library = dlopen(DUNLIN_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const DeviceOps& ops = *reinterpret_cast<DeviceModuleEntry>(dlsym(library, kDeviceModuleEntry))()->ops;
  std::vector<std::string> reasons;
  EXPECT_TRUE(ops.supports_model({.experts = true, .adapters = true, .state_rows = 256}, &reasons));
  EXPECT_FALSE(ops.supports_model({.state_rows = 257}, &reasons));
  EXPECT_THAT(reasons, ::testing::ElementsAre("states of more than 256 rows"));
}

TEST(CudaModule, ServesGemma4KimiLinearAndSparseAttention) {
  void* library = dlopen(DUNLIN_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const DeviceOps& ops = *reinterpret_cast<DeviceModuleEntry>(dlsym(library, kDeviceModuleEntry))()->ops;
  EXPECT_TRUE(ops.supports_model(
      {.experts = true, .experts_beside_mlp = true, .value_norms = true, .shared_kv = true, .row_factors = true},
      nullptr));
  EXPECT_TRUE(
      ops.supports_model({.experts = true, .latent_rows = true, .key_selection = true, .row_decays = true}, nullptr));
}

TEST(CudaModule, NamesWhatItLacksOfDeepseekV4) {
  void* library = dlopen(DUNLIN_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const DeviceOps& ops = *reinterpret_cast<DeviceModuleEntry>(dlsym(library, kDeviceModuleEntry))()->ops;
  std::vector<std::string> reasons;
  EXPECT_FALSE(ops.supports_model(
      {.experts = true, .compressed_keys = true, .residual_streams = true, .token_experts = true}, &reasons));
  EXPECT_THAT(reasons, ::testing::ElementsAre("entries of groups of tokens", "residual streams", "experts by token"));
}

}  // namespace
}  // namespace dunlin::kernels::cuda
