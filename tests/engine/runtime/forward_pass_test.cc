// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/forward_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

// What the watchdog reads: a long pass of an 8B model on two cores is no stall.
TEST_F(ForwardPassTest, ProgressAdvancesWithEveryOperation) {
  ExecutionProfile profile;
  ASSERT_TRUE(Run(SmallGpt2Config(), profile).ok());
  EXPECT_GT(progress_, static_cast<uint64_t>(6 * SmallGpt2Config().num_layers)) << "several in each layer";
  EXPECT_LE(progress_, log_.lines.size());
}

TEST_F(ForwardPassTest, RunsAGpt2LayerByItsConfig) {
  ExecutionProfile profile;
  profile.attention_backend = AttentionBackend::kEfficient;
  profile.precision = Precision::kFp8;
  ASSERT_TRUE(Run(SmallGpt2Config(), profile).ok());
  std::vector<std::string> expected = {"gather rows 5 of [100,8]", "gather rows 5 of [64,8] accumulate"};
  for (const char* line :
       {"norm rows 5", "gemm rows 5 decode 1 weight [24,8] bias", "store kv bf16 layer 0",
        "attention efficient layer 0 sequences 2", "quantize columns 8",
        "gemm rows 5 decode 1 weight [8,8] bias residual", "norm rows 5", "gemm rows 5 decode 1 weight [32,8] bias",
        "activate columns 32", "gemm rows 5 decode 1 weight [8,32] bias residual",
        // The last layer continues with the one row that the head reads.
        "norm rows 5", "gemm rows 5 decode 1 weight [24,8] bias", "store kv bf16 layer 1", "copy rows 1 columns 8",
        "copy rows 1 columns 8", "attention efficient layer 1 sequences 1", "quantize columns 8",
        "gemm rows 1 decode 1 weight [8,8] bias residual", "norm rows 1", "gemm rows 1 decode 1 weight [32,8] bias",
        "activate columns 32", "gemm rows 1 decode 1 weight [8,32] bias residual", "norm rows 1"}) {
    expected.emplace_back(line);
  }
  expected.push_back("gemm rows 1 decode 1 weight [100,8]");
  EXPECT_THAT(log_.lines, ElementsAreArray(expected));
}

TEST_F(ForwardPassTest, RunsALlamaLayerByItsConfig) {
  ExecutionProfile profile;
  profile.precision = Precision::kFp32;
  ASSERT_TRUE(Run(SmallLlamaConfig(), profile).ok());
  EXPECT_EQ(log_.attention_rows, 1) << "the kept one";
  EXPECT_EQ(log_.num_pages, num_pages_);
  EXPECT_THAT(
      log_.lines,
      ElementsAre("gather rows 5 of [100,8]", "rotary table dim 6", "norm rows 5", "gemm rows 5 decode 1 weight [48,8]",
                  "store kv fp32 layer 0 rotated", "copy rows 1 columns 8", "copy rows 1 columns 24",
                  "attention flash layer 0 sequences 1", "quantize columns 24",
                  "gemm rows 1 decode 1 weight [8,24] residual", "norm rows 1", "gemm rows 1 decode 1 weight [40,8]",
                  "activate columns 20 gated", "gemm rows 1 decode 1 weight [8,20] residual", "norm rows 1",
                  "gemm rows 1 decode 1 weight [100,8]"));
}

// A chunk in the middle of a prompt: nothing reads its hidden states after the last layer.
TEST_F(ForwardPassTest, ComputesNothingAfterTheLastKvWithoutHeadRows) {
  samples_ = false;
  for (const ModelConfig& config : {SmallGpt2Config(), SmallLlamaConfig()}) {
    log_.lines.clear();
    ASSERT_TRUE(Run(config, {}).ok());
    EXPECT_THAT(log_.lines, Contains(HasSubstr("store kv")).Times(config.num_layers));
    EXPECT_THAT(AfterTheLastKv(), ElementsAre());
  }
}

// When every row is scored nothing is copied, but all rows run as decode.
TEST_F(ForwardPassTest, ComputesEveryRowOfTheLastLayerWhenTheHeadReadsAll) {
  scores_ = true;
  ASSERT_TRUE(Run(SmallLlamaConfig(), {}).ok());
  EXPECT_EQ(log_.one_token_sequences, 1) << "the one that decodes";
  EXPECT_EQ(log_.attention_rows, 5);
  EXPECT_THAT(AfterTheLastKv(), ElementsAre("attention flash layer 0 sequences 2", "quantize columns 24",
                                            "gemm rows 5 decode 5 weight [8,24] residual", "norm rows 5",
                                            "gemm rows 5 decode 5 weight [40,8]", "activate columns 20 gated",
                                            "gemm rows 5 decode 5 weight [8,20] residual", "norm rows 1 picked",
                                            "gemm rows 1 decode 1 weight [100,8]"));
}

TEST_F(ForwardPassTest, UsesTheGemmThatFusesTheActivation) {
  support_.gemm_fuses = true;
  ModelConfig config = SmallGpt2Config();
  config.num_layers = 1;
  for (const bool parallel : {false, true}) {
    log_.lines.clear();
    config.parallel_residual = parallel;
    ASSERT_TRUE(Run(config, {}).ok());
    EXPECT_THAT(log_.lines, Contains("gemm rows 1 decode 1 weight [32,8] bias activated"));
    EXPECT_THAT(log_.lines, Contains("gemm rows 1 decode 1 weight [8,32] bias residual"));
    EXPECT_THAT(log_.lines, Not(Contains(HasSubstr("activate columns"))));
  }
  log_.lines.clear();
  ASSERT_TRUE(Run(SmallLlamaConfig(), {}).ok());
  EXPECT_THAT(log_.lines, Contains("gemm rows 1 decode 1 weight [40,8] activated"));
  EXPECT_THAT(log_.lines, Not(Contains(HasSubstr("activate columns"))));
}

TEST_F(ForwardPassTest, UsesTheGemmThatStoresKeysAndValues) {
  support_.gemm_fuses = true;
  for (const ModelConfig& config : {SmallGpt2Config(), SmallLlamaConfig()}) {
    log_.lines.clear();
    ASSERT_TRUE(Run(config, {}).ok());
    EXPECT_THAT(log_.lines, Contains(HasSubstr(" stores heads")).Times(config.num_layers));
    EXPECT_THAT(log_.lines, Not(Contains(HasSubstr("store kv"))));
  }
}

TEST_F(ForwardPassTest, UsesTheAttentionThatRoundsItsOutput) {
  support_.attention_fuses = true;
  for (const ModelConfig& config : {SmallGpt2Config(), SmallLlamaConfig()}) {
    log_.lines.clear();
    ASSERT_TRUE(Run(config, {}).ok());
    EXPECT_THAT(log_.lines, Contains(HasSubstr(" rounded")).Times(config.num_layers));
    EXPECT_THAT(log_.lines, Not(Contains(HasSubstr("quantize"))));
  }
}

TEST_F(ForwardPassTest, RunsTheActivationWhereNothingFusesIt) {
  ASSERT_TRUE(Run(SmallLlamaConfig(), {}).ok());
  EXPECT_THAT(log_.lines, Contains("activate columns 20 gated"));
  log_.lines.clear();
  support_.gemm_fuses = true;
  execution_ = ExecutionMode::kEager;
  ASSERT_TRUE(Run(SmallGpt2Config(), {}).ok());
  EXPECT_THAT(log_.lines, Contains("activate columns 32 plain"));
}

// Norm, rounding, GEMM, bias, residual and activation are separate operations.
TEST_F(ForwardPassTest, EagerRunsOneOperationPerStep) {
  execution_ = ExecutionMode::kEager;
  ExecutionProfile profile;
  profile.precision = Precision::kFp8;
  ASSERT_TRUE(Run(SmallGpt2Config(), profile).ok());
  std::vector<std::string> expected = {"gather rows 5 of [100,8]", "gather rows 5 of [64,8] accumulate"};
  for (const char* line : {"norm rows 5 plain",
                           "quantize columns 8",
                           "gemm rows 5 decode 1 weight [24,8]",
                           "add columns 24 bias",
                           "store kv bf16 layer 0",
                           "attention flash layer 0 sequences 2",
                           "quantize columns 8",
                           "gemm rows 5 decode 1 weight [8,8]",
                           "add columns 8 bias",
                           "add columns 8 residual",
                           "norm rows 5 plain",
                           "quantize columns 8",
                           "gemm rows 5 decode 1 weight [32,8]",
                           "add columns 32 bias",
                           "activate columns 32 plain",
                           "quantize columns 32",
                           "gemm rows 5 decode 1 weight [8,32]",
                           "add columns 8 bias",
                           "add columns 8 residual",
                           "norm rows 5 plain",
                           "quantize columns 8",
                           "gemm rows 5 decode 1 weight [24,8]",
                           "add columns 24 bias",
                           "store kv bf16 layer 1",
                           "copy rows 1 columns 8",
                           "copy rows 1 columns 8",
                           "attention flash layer 1 sequences 1",
                           "quantize columns 8",
                           "gemm rows 1 decode 1 weight [8,8]",
                           "add columns 8 bias",
                           "add columns 8 residual",
                           "norm rows 1 plain",
                           "quantize columns 8",
                           "gemm rows 1 decode 1 weight [32,8]",
                           "add columns 32 bias",
                           "activate columns 32 plain",
                           "quantize columns 32",
                           "gemm rows 1 decode 1 weight [8,32]",
                           "add columns 8 bias",
                           "add columns 8 residual",
                           "norm rows 1 plain",
                           "quantize columns 8",
                           "gemm rows 1 decode 1 weight [100,8]"}) {
    expected.emplace_back(line);
  }
  EXPECT_THAT(log_.lines, ElementsAreArray(expected));
}

// The up projection runs before the attention's output is added.
TEST_F(ForwardPassTest, RunsAParallelLayerByItsConfig) {
  ModelConfig config = SmallGpt2Config();
  config.num_layers = 1;
  config.parallel_residual = config.head.bias = true;
  for (const bool shared : {false, true}) {
    log_.lines.clear();
    config.norm.shared = shared;
    ASSERT_TRUE(Run(config, {}).ok());
    std::vector<std::string> expected = {"gather rows 5 of [100,8]", "gather rows 5 of [64,8] accumulate",
                                         "norm rows 5", "gemm rows 5 decode 1 weight [24,8] bias",
                                         "store kv bf16 layer 0"};
    for (const char* line : {"copy rows 1 columns 8", "copy rows 1 columns 8", "norm rows 1",
                             "gemm rows 1 decode 1 weight [32,8] bias", "attention flash layer 0 sequences 1",
                             "quantize columns 8", "gemm rows 1 decode 1 weight [8,8] bias residual",
                             "activate columns 32", "gemm rows 1 decode 1 weight [8,32] bias residual", "norm rows 1",
                             "gemm rows 1 decode 1 weight [100,8] bias"}) {
      expected.push_back(line);
    }
    EXPECT_THAT(log_.lines, ElementsAreArray(expected));
  }
}

TEST_F(ForwardPassTest, NormsCapsAndScalesByItsConfig) {
  ModelConfig config = SmallLlamaConfig();
  config.attention.qk_norm = true;
  config.norm.placement = NormPlacement::kPreAndPost;
  config.embedding.scale = 3.01F;
  config.attention.softcap = 50.0F;
  config.attention.layer_windows = {7};
  config.head.softcap = 30.0F;
  ExecutionProfile profile;
  profile.precision = Precision::kBf16;
  ASSERT_TRUE(Run(config, profile).ok());
  EXPECT_THAT(log_.lines, ElementsAre("gather rows 5 of [100,8] times 3.01562", "rotary table dim 6", "norm rows 5",
                                      "gemm rows 5 decode 1 weight [48,8]", "store kv bf16 layer 0 normed rotated",
                                      "copy rows 1 columns 8", "copy rows 1 columns 24",
                                      "attention flash layer 0 sequences 1 window 7 softcap 50", "quantize columns 24",
                                      "gemm rows 1 decode 1 weight [8,24]", "norm rows 1 plain residual", "norm rows 1",
                                      "gemm rows 1 decode 1 weight [40,8]", "activate columns 20 gated",
                                      "gemm rows 1 decode 1 weight [8,20]", "norm rows 1 plain residual", "norm rows 1",
                                      "gemm rows 1 decode 1 weight [100,8]", "softcap rows 1 columns 100"));
}

// As EXAONE 4: the rows themselves are the inputs, and each term is normalised before it is added. A table of cosines
// and sines for each set of frequencies, and layers without positions.
TEST_F(ForwardPassTest, NormsTermsAloneAndRotatesByLayer) {
  ModelConfig config = SmallLlamaConfig();
  config.norm.placement = NormPlacement::kPostInside;
  config.num_layers = 2;
  config.rotary.inv_freq.resize(2 * config.rotary.inv_freq.size(), 1.0F);
  config.rotary.layer_index = {1, -1};
  ExecutionProfile profile;
  profile.precision = Precision::kBf16;
  ASSERT_TRUE(Run(config, profile).ok());
  std::vector<std::string> expected = {"gather rows 5 of [100,8]", "rotary table dim 6", "rotary table dim 6"};
  for (const char* line :
       {"quantize columns 8", "gemm rows 5 decode 1 weight [48,8]", "store kv bf16 layer 0 rotated",
        "attention flash layer 0 sequences 2", "quantize columns 24", "gemm rows 5 decode 1 weight [8,24]",
        "norm rows 5 plain residual", "quantize columns 8", "gemm rows 5 decode 1 weight [40,8]",
        "activate columns 20 gated", "gemm rows 5 decode 1 weight [8,20]", "norm rows 5 plain residual",
        "quantize columns 8", "gemm rows 5 decode 1 weight [48,8]", "store kv bf16 layer 1"}) {
    expected.emplace_back(line);
  }
  ASSERT_GT(log_.lines.size(), expected.size());
  log_.lines.resize(expected.size());
  EXPECT_THAT(log_.lines, ElementsAreArray(expected));
}

// As BERT: each norm follows its residual and also makes the input of the next GEMM. Both layers store their keys and
// values in the pages of one.
TEST_F(ForwardPassTest, RunsAPostNormLayerByItsConfig) {
  ModelConfig config = SmallGpt2Config();
  config.kind = ModelKind::kEncoder;
  config.norm.placement = NormPlacement::kPost;
  config.attention.causal = false;
  config.embedding.num_token_types = 2;
  samples_ = false;
  scores_ = true;
  ExecutionProfile profile;
  profile.precision = Precision::kFp32;
  ASSERT_TRUE(Run(config, profile).ok());
  std::vector<std::string> expected = {
      "gather rows 5 of [100,8]", "gather rows 5 of [2,8] accumulate",       "gather rows 5 of [64,8] accumulate",
      "norm rows 5 in place",     "gemm rows 5 decode 1 weight [24,8] bias", "store kv fp32 layer 0"};
  for (const char* line : {"attention flash layer 0 sequences 2 bidirectional",
                           "quantize columns 8",
                           "gemm rows 5 decode 1 weight [8,8] bias residual",
                           "norm rows 5 in place",
                           "gemm rows 5 decode 1 weight [32,8] bias",
                           "activate columns 32",
                           "gemm rows 5 decode 1 weight [8,32] bias residual",
                           "norm rows 5 in place",
                           "gemm rows 5 decode 1 weight [24,8] bias",
                           "store kv fp32 layer 0",
                           "copy rows 4 columns 8",
                           "copy rows 4 columns 8",
                           "attention flash layer 0 sequences 1 bidirectional",
                           "quantize columns 8",
                           "gemm rows 4 decode 4 weight [8,8] bias residual",
                           "norm rows 4 in place",
                           "gemm rows 4 decode 4 weight [32,8] bias",
                           "activate columns 32",
                           "gemm rows 4 decode 4 weight [8,32] bias residual",
                           "norm rows 4 plain in place"}) {
    expected.emplace_back(line);
  }
  EXPECT_THAT(log_.lines, ElementsAreArray(expected));

  log_.lines.clear();
  execution_ = ExecutionMode::kEager;
  ASSERT_TRUE(Run(config, profile).ok());
  EXPECT_THAT(log_.lines, Contains("norm rows 5 plain in place").Times(3));
  EXPECT_THAT(log_.lines, Contains("norm rows 4 plain in place").Times(2));
}

TEST_F(ForwardPassTest, PassesDeterministicToEveryGemm) {
  deterministic_ = false;
  ASSERT_TRUE(Run(SmallLlamaConfig(), {}).ok());
  for (const std::string& line : log_.lines) {
    EXPECT_EQ(line.rfind("gemm", 0) == 0, line.find(" any order") != std::string::npos) << line;
  }
}

TEST_F(ForwardPassTest, StopsAtTheFirstFailureAndNamesIt) {
  log_.fail_at = 12 + 5;  // the attention of the second layer
  const absl::Status status = Run(SmallGpt2Config(), {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(std::string(status.message()), "paged attention in layer 1 failed: device error");
  EXPECT_EQ(log_.lines.size(), 18U);
}

TEST_F(ForwardPassTest, EveryOperationsFailureIsReported) {
  for (const ExecutionMode execution : {ExecutionMode::kFused, ExecutionMode::kEager}) {
    execution_ = execution;
    log_.lines.clear();
    log_.fail_at = -1;
    ASSERT_TRUE(Run(SmallGpt2Config(), {}).ok());
    const int num_ops = static_cast<int>(log_.lines.size());
    for (int op = 0; op < num_ops; ++op) {
      log_.lines.clear();
      log_.fail_at = op;
      EXPECT_EQ(Run(SmallGpt2Config(), {}).code(), absl::StatusCode::kInternal) << op;
      EXPECT_EQ(static_cast<int>(log_.lines.size()), op + 1);
    }
  }
}

}  // namespace
}  // namespace dunlin::engine
