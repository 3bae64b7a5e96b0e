// SPDX-License-Identifier: Apache-2.0
// The operations of a layer with experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

// Layer 0 is dense. In layer 1 a row takes two experts: each product has all of their rows.
TEST_F(ForwardPassTest, RunsTheExpertsThatRowsAreSentTo) {
  scores_ = true;
  ExecutionProfile profile;
  profile.precision = Precision::kFp32;
  ASSERT_TRUE(Run(SmallExpertsConfig(), profile).ok());
  EXPECT_THAT(log_.lines, Contains("gemm rows 5 decode 1 weight [40,8]").Times(1)) << "the MLP of layer 0";
  const std::vector<std::string> lines = AfterTheLastKv();
  std::vector<std::string> expected = {"attention flash layer 1 sequences 2",
                                       "quantize columns 24",
                                       "gemm rows 5 decode 5 weight [8,24] residual",
                                       "norm rows 5 plain",
                                       "quantize columns 8",
                                       "gemm rows 5 decode 5 weight [4,8]",
                                       "route rows 5 experts 3"};
  for (const char* line :
       {"quantize columns 8 picked 10", "grouped gemm rows 10 groups 3 weight [14,8]", "activate columns 7 gated",
        "grouped gemm rows 10 groups 3 weight [8,7]", "add weighted rows 5 columns 8 places 2", "quantize columns 8",
        "gemm rows 5 decode 5 weight [18,8]", "activate columns 9 gated", "gemm rows 5 decode 5 weight [8,9]",
        "add weighted rows 5 columns 8 sigmoid", "norm rows 1 picked", "gemm rows 1 decode 1 weight [100,8]"}) {
    expected.emplace_back(line);
  }
  EXPECT_THAT(lines, ElementsAreArray(expected));
}

TEST_F(ForwardPassTest, ASharedExpertWithoutAGateAddsToTheResidualInItsProduct) {
  ModelConfig config = SmallExpertsConfig();
  config.experts.shared_gate = false;
  ASSERT_TRUE(Run(config, {}).ok());
  EXPECT_THAT(log_.lines, Contains("gemm rows 1 decode 1 weight [8,9] residual"));
  EXPECT_THAT(log_.lines, Contains("gemm rows 1 decode 1 weight [3,8]")) << "the router without the gate's row";
}

// A device that fuses the activation into a product does so for experts, too.
TEST_F(ForwardPassTest, ExpertsUseTheGemmThatFusesTheActivation) {
  support_.gemm_fuses = true;
  ASSERT_TRUE(Run(SmallExpertsConfig(), {}).ok());
  EXPECT_THAT(log_.lines, Contains("grouped gemm rows 2 groups 3 weight [14,8] activated"));
  EXPECT_THAT(log_.lines, Contains("gemm rows 1 decode 1 weight [18,8] activated"));
}

// One that does so in gemm alone refuses the grouped product, before it writes anything.
TEST_F(ForwardPassTest, ExpertsActivateApartWhereTheGroupedGemmDoesNotFuse) {
  support_.gemm_fuses = true;
  static const kernels::DeviceOps* fake = nullptr;
  fake = device_->ops;
  kernels::DeviceOps ops = *fake;
  ops.grouped_gemm = [](kernels::DeviceContext* context, const kernels::GroupedGemmParams& params) {
    return params.next != nullptr ? kernels::KernelStatus::kUnsupported : fake->grouped_gemm(context, params);
  };
  device_->ops = &ops;
  EXPECT_TRUE(Run(SmallExpertsConfig(), {}).ok());
  device_->ops = fake;
  EXPECT_THAT(log_.lines, Contains("grouped gemm rows 2 groups 3 weight [14,8]"));
  EXPECT_THAT(log_.lines, Contains("activate columns 7 gated"));
}

TEST_F(ForwardPassTest, EagerExpertsRunOneOperationPerStep) {
  execution_ = ExecutionMode::kEager;
  ASSERT_TRUE(Run(SmallExpertsConfig(), {}).ok());
  EXPECT_THAT(log_.lines, Contains("activate columns 7 gated plain"));
  EXPECT_THAT(log_.lines, Contains("quantize columns 7"));
}

}  // namespace
}  // namespace dunlin::engine
