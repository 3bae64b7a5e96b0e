// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/runtime/fake_device.h"
#include "tests/engine/runtime/small_models.h"

namespace dunlin::engine {
namespace {

using kernels::AttentionBackend;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ProfilesTest : public ::testing::Test {
 protected:
  ProfileTable Table() { return {SmallGpt2Config(), resident_, *device_, options_}; }
  std::string RefusalOf(const ExecutionChoice& choice) {
    const absl::StatusOr<ExecutionProfile> profile = Table().Resolve(choice);
    EXPECT_EQ(profile.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(profile.status().message());
  }

  FakeDeviceLog log_;
  FakeSupport support_;
  std::unique_ptr<kernels::Device> device_ = MakeFakeDevice(&log_, &support_);
  std::vector<Precision> resident_ = {Precision::kBf16, Precision::kFp8};
  EngineOptions options_;
};

TEST_F(ProfilesTest, AutoTakesFlashAndTheDefaultPrecision) {
  const ExecutionProfile profile = *Table().Resolve({});
  EXPECT_EQ(profile.device, DeviceKind::kCpu);
  EXPECT_EQ(profile.attention_backend, AttentionBackend::kFlash);
  EXPECT_EQ(profile.precision, Precision::kBf16);
}

TEST_F(ProfilesTest, Fp8KvIsOfFp8ProfilesAlone) {
  options_.kv_fp8 = true;
  ExecutionChoice choice;
  choice.precision = Precision::kFp8;
  EXPECT_EQ(Table().Resolve(choice)->kv_dtype(), kernels::DType::kF8E4M3);
  choice.precision = Precision::kBf16;
  EXPECT_EQ(Table().Resolve(choice)->kv_dtype(), kernels::DType::kBF16);
  options_.kv_fp8 = false;
  choice.precision = Precision::kFp8;
  EXPECT_EQ(Table().Resolve(choice)->kv_dtype(), kernels::DType::kBF16);
}

TEST_F(ProfilesTest, WhatAModelDoesNotAllowIsUnsupportedAndAutoPassesItOver) {
  options_.allowed_backends.reset(static_cast<size_t>(AttentionBackend::kFlash));
  options_.allowed_precisions.reset(static_cast<size_t>(Precision::kFp8));
  EXPECT_EQ(Table().Resolve({})->attention_backend, AttentionBackend::kEfficient);
  ExecutionChoice flash;
  flash.attention_backend = AttentionBackend::kFlash;
  EXPECT_THAT(RefusalOf(flash),
              HasSubstr("flash is not allowed for this model (models[].allowed.attention_backends is ["));
  ExecutionChoice fp8;
  fp8.precision = Precision::kFp8;
  EXPECT_THAT(RefusalOf(fp8),
              HasSubstr("precision fp8 is not allowed for this model (models[].allowed.precisions is ["));
}

TEST_F(ProfilesTest, AutoWalksFlashEfficientMath) {
  support_.refusals[AttentionBackend::kFlash] = "flash says no";
  EXPECT_EQ(Table().Resolve({})->attention_backend, AttentionBackend::kEfficient);
  options_.Enable(AttentionBackend::kEfficient, false);
  EXPECT_EQ(Table().Resolve({})->attention_backend, AttentionBackend::kMath);
}

TEST_F(ProfilesTest, NamedChoicesAreHonoured) {
  ExecutionChoice choice;
  choice.device = DeviceKind::kCpu;
  choice.attention_backend = AttentionBackend::kMath;
  choice.precision = Precision::kFp8;
  const ExecutionProfile profile = *Table().Resolve(choice);
  EXPECT_EQ(profile.attention_backend, AttentionBackend::kMath);
  EXPECT_EQ(profile.precision, Precision::kFp8);
}

TEST_F(ProfilesTest, ANamedBackendThatDoesNotFitIsRefusedWithEveryReason) {
  options_.Enable(AttentionBackend::kFlash, false);
  support_.refusals[AttentionBackend::kFlash] = "head_dim is 4; flash takes 64 and above";
  ExecutionChoice choice;
  choice.attention_backend = AttentionBackend::kFlash;
  choice.precision = Precision::kFp16;
  EXPECT_EQ(RefusalOf(choice),
            "no available kernel for precision fp16 on cpu. flash: flash is disabled by the config "
            "(attention.enable_flash); precision fp16 is not resident (models[].precisions is [bf16, fp8]); "
            "head_dim is 4; flash takes 64 and above.");
}

TEST_F(ProfilesTest, AllowFallbackReplacesTheBackendInAutosOrder) {
  support_.refusals[AttentionBackend::kFlash] = "flash says no";
  ExecutionChoice choice;
  choice.attention_backend = AttentionBackend::kFlash;
  choice.allow_fallback = true;
  EXPECT_EQ(Table().Resolve(choice)->attention_backend, AttentionBackend::kEfficient);
}

TEST_F(ProfilesTest, FallbackNeverReplacesThePrecision) {
  ExecutionChoice choice;
  choice.precision = Precision::kFp32;
  choice.allow_fallback = true;
  const std::string refusal = RefusalOf(choice);
  for (const char* part : {"flash: precision fp32", "efficient: precision fp32", "math: precision fp32"}) {
    EXPECT_THAT(refusal, HasSubstr(part));
  }
}

TEST_F(ProfilesTest, AnotherDeviceIsRefused) {
  ExecutionChoice choice;
  choice.device = DeviceKind::kCuda;
  EXPECT_EQ(RefusalOf(choice), "device cuda is not available: this model is served on cpu (models[].device)");
}

TEST_F(ProfilesTest, SpeculationIsRefusedWhereAVerifiedTokenWouldHaveOtherBits) {
  ExecutionChoice choice;
  choice.max_drafts = 4;
  EXPECT_TRUE(Table().Resolve(choice).ok());
  options_.max_drafts = 4;
  EXPECT_TRUE(Table().CheckSpeculation(options_).ok());
  kernels::DeviceOps ops = *device_->ops;
  ops.prefill_matches_decode = [](const kernels::DeviceContext*, kernels::Precision, bool) { return false; };
  device_->ops = &ops;
  EXPECT_EQ(RefusalOf(choice),
            "speculation is not available: on cpu a token that is verified would not have the bits of one that is "
            "decoded");
  EXPECT_EQ(Table().CheckSpeculation(options_).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Table().CheckSpeculation(options_).message()),
              HasSubstr("models[].speculation asks for up to 4 drafts, but on cpu"));
  choice.allow_fallback = true;
  EXPECT_TRUE(Table().Resolve(choice).ok());
  choice = {};
  choice.max_drafts = 0;
  EXPECT_TRUE(Table().Resolve(choice).ok());
  options_.max_drafts = 0;
  EXPECT_TRUE(Table().CheckSpeculation(options_).ok());
}

TEST_F(ProfilesTest, APrecisionThatTheDeviceDoesNotMultiplyHasAReason) {
  kernels::DeviceOps ops = *device_->ops;
  ops.packed_weight_bytes = [](kernels::WeightFormat format, int64_t, int64_t, int32_t) {
    return format == kernels::WeightFormat::kInt4 ? size_t{0} : size_t{64};
  };
  device_->ops = &ops;
  resident_ = {Precision::kInt8, Precision::kInt4};
  ExecutionChoice choice;
  EXPECT_EQ(Table().Resolve(choice)->precision, Precision::kInt8);
  choice.precision = Precision::kInt4;
  EXPECT_THAT(RefusalOf(choice), ::testing::HasSubstr("flash: precision int4 is not supported on cpu."));
}

TEST_F(ProfilesTest, RowsCoverEveryBackendAndPrecision) {
  const ProfileTable table = Table();
  ASSERT_EQ(table.rows().size(), size_t{3} * kernels::kNumPrecisions);
  int supported = 0;
  for (const ProfileSupport& row : table.rows()) {
    EXPECT_EQ(row.supported, row.reasons.empty());
    supported += row.supported ? 1 : 0;
  }
  EXPECT_EQ(supported, 6);
}

TEST_F(ProfilesTest, StartIsRefusedWithAllBackendsSwitchedOff) {
  EXPECT_TRUE(CheckBackendsEnabled(options_).ok());
  options_.attention_backends.reset();
  const absl::Status status = CheckBackendsEnabled(options_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no available kernel: math, flash and efficient are all disabled (attention.enable_math, "
                        "attention.enable_flash, attention.enable_efficient)"));
  EXPECT_EQ(Table().CheckServable().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ProfilesTest, StartIsRefusedWhenNoKernelTakesTheModel) {
  EXPECT_TRUE(Table().CheckServable().ok());
  for (const kernels::AttentionBackendTraits& row : kernels::kAttentionBackendTable) {
    support_.refusals[row.backend] = absl::StrCat("no ", row.name);
  }
  EXPECT_THAT(std::string(Table().CheckServable().message()),
              EndsWith("flash: no flash. efficient: no efficient. math: no math."));
}

}  // namespace
}  // namespace dunlin::engine
