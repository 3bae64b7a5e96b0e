// SPDX-License-Identifier: Apache-2.0
// Refusals: a backend names each unmet condition in a sentence with the value and the limit, and a launch returns it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Reasons(AttentionBackend backend, const AttentionTraits& traits) {
  Device& device = CpuDevice("", 1);
  std::vector<std::string> reasons;
  const bool supported = device.ops->supports_attention(device.context, backend, traits, &reasons);
  EXPECT_EQ(supported, reasons.empty());
  EXPECT_EQ(supported, device.ops->supports_attention(device.context, backend, traits, nullptr));
  return reasons;
}

TEST(AttentionSupportTest, EveryBackendTakesTheOrdinaryModels) {
  for (const AttentionBackend backend : kBackends) {
    for (const DType dtype : kKvDTypes) {
      EXPECT_THAT(Reasons(backend, {dtype, 64, 12, 12}), IsEmpty());
      EXPECT_THAT(Reasons(backend, {dtype, 128, 32, 8}), IsEmpty());
      EXPECT_THAT(Reasons(backend, {dtype, 1, 1, 1}), IsEmpty());
      EXPECT_THAT(Reasons(backend, {dtype, 256, 71, 1}), IsEmpty());
      EXPECT_THAT(Reasons(backend, {dtype, 512, 16, 2}), IsEmpty());
    }
  }
}

TEST(AttentionSupportTest, OnlyFlashLimitsTheHeadDim) {
  EXPECT_THAT(Reasons(AttentionBackend::kFlash, {DType::kBF16, 576, 8, 8}),
              ElementsAre("flash on cpu supports head_dim up to 512; head_dim is 576"));
  EXPECT_THAT(Reasons(AttentionBackend::kEfficient, {DType::kBF16, 576, 8, 8}), IsEmpty());
  EXPECT_THAT(Reasons(AttentionBackend::kMath, {DType::kBF16, 576, 8, 8}), IsEmpty());
}

TEST(AttentionSupportTest, EveryUnmetConditionIsNamed) {
  EXPECT_THAT(Reasons(AttentionBackend::kFlash, {DType::kF8E4M3, 576, 7, 3}),
              ElementsAre("flash on cpu needs num_heads to be a multiple of num_kv_heads; num_heads is 7, "
                          "num_kv_heads is 3",
                          "flash on cpu supports head_dim up to 512; head_dim is 576"));
  EXPECT_THAT(Reasons(AttentionBackend::kMath, {DType::kF32, 0, 0, 0}),
              ElementsAre("math on cpu needs a head_dim of at least 1; head_dim is 0",
                          "math on cpu needs at least one query head and one KV head; num_heads is 0, "
                          "num_kv_heads is 0"));
}

TEST(AttentionSupportTest, AWindowWithoutACausalMaskIsOdd) {
  for (const AttentionBackend backend : kBackends) {
    const std::string name = std::string(Name(backend)) + " on cpu ";
    AttentionTraits traits{.dtype = DType::kBF16, .head_dim = 64, .num_heads = 8, .num_kv_heads = 8};
    traits.window = 4096;
    traits.softcap = 50.0F;
    EXPECT_THAT(Reasons(backend, traits), IsEmpty());
    traits.causal = false;
    EXPECT_THAT(Reasons(backend, traits),
                ElementsAre(name + "needs an odd window without a causal mask; window is 4096"));
    traits.window = 129;
    EXPECT_THAT(Reasons(backend, traits), IsEmpty());
    traits.window = -1;
    traits.softcap = -2.0F;
    EXPECT_THAT(Reasons(backend, traits),
                ElementsAre(name + "needs a window of at least 0 keys (0 is none); window is -1",
                            name + "needs a finite softcap of at least 0 (0 is none); softcap is -2.000000"));
  }
}

// Every feature of the dense op against every backend: what is refused is what the capability table lists.
TEST(AttentionSupportTest, EveryFeatureIsTakenOrRefusedByName) {
  struct Feature {
    void (*set)(AttentionTraits*);
    const char* math;
    const char* flash;
    const char* efficient;
  };
  constexpr const char* kBias = "does not support a bias (a non-null floating-point attn_mask); math and efficient do";
  constexpr const char* kMask = "does not support a mask (a non-null boolean attn_mask); math and efficient do";
  constexpr const char* kBoth = "does not support an explicit mask together with causal; set one of them";
  constexpr const char* kDim = "supports v_head_dim up to 512; v_head_dim is 600";
  const Feature features[] = {
      {[](AttentionTraits* t) { t->v_head_dim = 96; }, nullptr, nullptr, nullptr},
      {[](AttentionTraits* t) { t->v_head_dim = 600; }, nullptr, kDim, nullptr},
      {[](AttentionTraits* t) { t->softcap = 30.0F; }, nullptr, nullptr, nullptr},
      {[](AttentionTraits* t) { t->window = 128; }, nullptr, nullptr, nullptr},
      {[](AttentionTraits* t) { t->sinks = true; }, nullptr, nullptr, nullptr},
      {[](AttentionTraits* t) { t->causal = false; }, nullptr, nullptr, nullptr},
      {[](AttentionTraits* t) { t->bias = true; }, nullptr, kBias, nullptr},
      {[](AttentionTraits* t) { t->mask = true, t->causal = false; }, nullptr, kMask, nullptr},
  };
  for (const Feature& feature : features) {
    AttentionTraits traits{.dtype = DType::kBF16, .head_dim = 64, .num_heads = 8, .num_kv_heads = 2};
    feature.set(&traits);
    const char* expected[] = {feature.math, feature.flash, feature.efficient};
    for (const AttentionBackend backend : kBackends) {
      std::vector<std::string> sentences;
      const char* reason = expected[static_cast<int>(backend)];
      if (reason != nullptr) sentences.push_back(std::string(Name(backend)) + " on cpu " + reason);
      EXPECT_EQ(Reasons(backend, traits), sentences);
    }
  }
  AttentionTraits both{.dtype = DType::kBF16, .head_dim = 64, .num_heads = 8, .num_kv_heads = 2};
  both.mask = true;
  EXPECT_THAT(Reasons(AttentionBackend::kMath, both), ElementsAre(std::string("math on cpu ") + kBoth));
  EXPECT_THAT(Reasons(AttentionBackend::kEfficient, both), ElementsAre(std::string("efficient on cpu ") + kBoth));
}

TEST(AttentionSupportTest, LaunchesReturnWhatIsWrong) {
  Device& device = CpuDevice("", 1);
  DenseAttentionParams params{};
  params.backend = AttentionBackend::kFlash;
  params.dtype = DType::kBF16;
  params.num_heads = params.num_kv_heads = 1;
  params.batch = params.q_len = params.kv_len = 1;
  params.head_dim = 576;
  EXPECT_EQ(device.ops->dense_attention(device.context, params), KernelStatus::kUnsupported);
  params.head_dim = 64;
  EXPECT_EQ(device.ops->dense_attention(device.context, params), KernelStatus::kOutOfMemory);
  params.q_len = -1;
  EXPECT_EQ(device.ops->dense_attention(device.context, params), KernelStatus::kInvalidArgument);
}

// A device that holds its sequences in its own memory knows only the call's bounds; on the CPU a wrong bound is found.
TEST(AttentionSupportTest, APagedCallsBoundsMustHold) {
  Device& device = CpuDevice("", 1);
  PagedBatch batch(DType::kBF16, {2, 1, 16}, {{1, 0, 5}, {2, 20, 3}});
  std::vector<float> out(batch.out_floats());
  PoisonedMemory workspace(
      device.ops->paged_attention_workspace(device.context, AttentionBackend::kFlash, batch.Plan()));
  const auto run = [&](int32_t query_slack, int32_t kv_slack, int32_t row_slack = 0, int32_t num_pages = 1) {
    PagedAttentionParams params = batch.Params(AttentionBackend::kFlash, out.data());
    params.workspace = workspace.data();
    params.workspace_bytes = workspace.size();
    params.max_query_tokens += query_slack;
    params.max_kv_tokens += kv_slack;
    params.num_rows += row_slack;
    params.num_pages *= num_pages;
    return device.ops->paged_attention(device.context, params);
  };
  EXPECT_EQ(run(0, 0), KernelStatus::kOk);
  EXPECT_EQ(run(-1, 0), KernelStatus::kInvalidArgument);
  EXPECT_EQ(run(0, -1), KernelStatus::kInvalidArgument);
  EXPECT_EQ(run(0, 0, 1), KernelStatus::kOk);
  EXPECT_EQ(run(0, 0, -1), KernelStatus::kInvalidArgument);
  EXPECT_EQ(run(0, 0, 0, 0), KernelStatus::kInvalidArgument) << "a pool without pages";
}

TEST(AttentionSupportTest, OnlyDenseMathGrowsWithTheSquare) {
  Device& device = CpuDevice("", 2);
  const auto bytes = [&](AttentionBackend backend, int32_t length) {
    DenseAttentionParams params{};
    params.backend = backend;
    params.dtype = DType::kBF16;
    params.batch = 1;
    params.num_heads = params.num_kv_heads = 4;
    params.q_len = params.kv_len = length;
    params.head_dim = 64;
    return device.ops->dense_attention_workspace(device.context, params);
  };
  EXPECT_GE(bytes(AttentionBackend::kMath, 4096), size_t{4} * 4096 * 4096 * 4);
  EXPECT_LT(bytes(AttentionBackend::kFlash, 4096), size_t{8} << 20);
  EXPECT_LT(bytes(AttentionBackend::kEfficient, 4096), size_t{8} << 20);
}

}  // namespace
}  // namespace dunlin::kernels::testing
