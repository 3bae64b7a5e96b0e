// SPDX-License-Identifier: Apache-2.0
// What a CUDA device supports and refuses, by compute capability, in the same words as the CPU.
#include "kernels/cuda/attention/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/attention/devices.h"

namespace dunlin::kernels::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Reasons(AttentionBackend backend, const AttentionTraits& traits, int sm_version = 90) {
  std::vector<std::string> reasons;
  const DeviceShape device{132, 99 * 1024, sm_version};
  const bool supported = SupportsAttentionOn(device, backend, traits, &reasons);
  EXPECT_EQ(supported, reasons.empty());
  EXPECT_EQ(supported, SupportsAttentionOn(device, backend, traits, nullptr));
  return reasons;
}

TEST(CudaAttentionSupport, SupportsOrdinaryModels) {
  for (const int sm_version : {80, 86, 89, 90, 100}) {
    for (const AttentionBackend backend : testing::kBackends) {
      for (const DType dtype : testing::kKvDTypes) {
        if (backend == AttentionBackend::kFlash && dtype == DType::kF32) continue;
        for (const int32_t head_dim : {64, 80, 96, 128, 256, 1}) {
          EXPECT_THAT(Reasons(backend, {dtype, head_dim, 32, 8}, sm_version), IsEmpty());
        }
      }
    }
  }
}

TEST(CudaAttentionSupport, FlashNeedsTensorCoresAndRegisters) {
  EXPECT_THAT(Reasons(AttentionBackend::kFlash, {DType::kF32, 64, 8, 8}),
              ElementsAre("flash on cuda supports keys in fp16, bf16 and fp8_e4m3; they are in fp32"));
  EXPECT_THAT(Reasons(AttentionBackend::kFlash, {DType::kBF16, 320, 8, 8}),
              ElementsAre("flash on cuda supports head_dim up to 256; head_dim is 320"));
  std::vector<std::string> wide;
  EXPECT_FALSE(SupportsAttentionOn({132, 163 * 1024, 80}, AttentionBackend::kFlash, {DType::kBF16, 520, 8, 8}, &wide));
  EXPECT_THAT(wide, ElementsAre("flash on cuda supports head_dim up to 512; head_dim is 520"));
  AttentionTraits traits{.dtype = DType::kBF16, .head_dim = 64, .num_heads = 8, .num_kv_heads = 8};
  traits.bias = true;
  EXPECT_THAT(Reasons(AttentionBackend::kFlash, traits),
              ElementsAre("flash on cuda does not support a bias (a non-null floating-point attn_mask); math and "
                          "efficient do"));
  for (const AttentionBackend backend : {AttentionBackend::kMath, AttentionBackend::kEfficient}) {
    EXPECT_THAT(Reasons(backend, traits), IsEmpty());
    EXPECT_THAT(Reasons(backend, {DType::kF32, 320, 8, 8}), IsEmpty());
  }
}

TEST(CudaAttentionSupport, RefusesOldDevices) {
  EXPECT_THAT(Reasons(AttentionBackend::kMath, {DType::kF32, 64, 8, 8}, 75),
              ElementsAre("math on cuda needs compute capability 8.0 or later; the device has 7.5"));
}

TEST(CudaAttentionSupport, TakesSinksInEveryBackend) {
  AttentionTraits traits{.dtype = DType::kBF16, .head_dim = 64, .num_heads = 8, .num_kv_heads = 8};
  traits.sinks = true;
  for (const AttentionBackend backend : testing::kBackends) EXPECT_THAT(Reasons(backend, traits), IsEmpty());
}

// Contradictions are refused alike on every device: except for the device's name, the sentences are the CPU's.
TEST(CudaAttentionSupport, RefusesContradictionsAsTheCpuDoes) {
  AttentionTraits window{.dtype = DType::kBF16, .head_dim = 64, .num_heads = 7, .num_kv_heads = 2, .window = 8};
  window.causal = false;
  AttentionTraits mask{.dtype = DType::kBF16, .head_dim = 0, .num_heads = 0, .num_kv_heads = 2};
  mask.mask = true;
  mask.softcap = -1.0F;
  Device& cpu = testing::CpuDevice("", 1);
  for (const AttentionTraits& traits : {window, mask}) {
    for (const AttentionBackend backend : testing::kBackends) {
      std::vector<std::string> expected;
      EXPECT_FALSE(cpu.ops->supports_attention(cpu.context, backend, traits, &expected));
      for (std::string& reason : expected) reason.replace(reason.find("on cpu"), 6, "on cuda");
      EXPECT_EQ(Reasons(backend, traits), expected);
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cuda
