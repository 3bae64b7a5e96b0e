// SPDX-License-Identifier: Apache-2.0
// Decode steps of a device that records: rounded up to few shapes and recorded before the first request. Rows that fill
// a shape change no bit of the others, whatever the architecture; a device that records nothing or something else
// serves as one without graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>

#include "engine/plan/sequence_view.h"
#include "engine/runtime/model_runtime.h"
#include "engine/runtime/step_graphs.h"
#include "tests/integration/model/graph_count.h"
#include "tests/integration/model/test_model.h"
#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kRecordingModule[] = DUNLIN_MODULE_DIR "/libfake_cuda.so";
constexpr int32_t kRecordedSequences = 6;

class ScopedFault {
 public:
  ScopedFault(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~ScopedFault() { unsetenv(name_); }
  ScopedFault(const ScopedFault&) = delete;
  ScopedFault& operator=(const ScopedFault&) = delete;

 private:
  const char* name_;
};

TestModel LoadRecordingModel(const std::string& name, const std::vector<Precision>& precisions,
                             bool cuda_graphs = true) {
  kernels::DeviceOptions options;
  options.cuda_module = kRecordingModule;
  options.cuda_graphs = cuda_graphs;
  std::string error;
  auto device = kernels::OpenDevice(DeviceKind::kCuda, options, &error);
  EXPECT_NE(device, nullptr) << error;
  return LoadTestModel(GoldenModelPath(name), std::move(device), precisions);
}

EngineOptions RecordingOptions(ExecutionMode execution) {
  EngineOptions options;
  options.max_sequences = kRecordedSequences;
  options.max_tokens_per_step = 64;
  options.max_context_tokens = 64;
  options.execution = execution;
  return options;
}

ProfileTable RecordedProfiles(const TestModel& test, const EngineOptions& options) {
  return {test.model->config(), test.model->precisions(), *test.device, options};
}

// Five sequences over their first tokens, each with a page of each group: their prompts, then steps of one token each.
class FiveSequences {
 public:
  static constexpr size_t kCount = 5;

  FiveSequences(const ModelRuntime& runtime, Precision precision, int32_t vocab_size) {
    profile_.precision = precision;
    profile_.device = DeviceKind::kCuda;
    sampling_.temperature = 0.0F;
    sampling_.logprobs = 0;
    const int32_t num_groups = runtime.kv_groups().count();
    for (size_t i = 0; i < kCount; ++i) {
      for (size_t at = 0; at < 3 + i; ++at) {
        tokens_[i].push_back(static_cast<TokenId>((7 + 11 * i + 3 * at) % static_cast<size_t>(vocab_size)));
      }
      prompt_lens_[i] = static_cast<int32_t>(tokens_[i].size());
      for (int32_t group = 0; group < num_groups; ++group) {
        pages_[i].push_back(static_cast<PageId>(static_cast<int32_t>(i) * num_groups + group));
      }
    }
  }

  // Of the step, in order: token and bits of its log-probability.
  std::vector<std::pair<TokenId, uint32_t>> Step(ModelRuntime* runtime) {
    StepPlan plan;
    for (size_t i = 0; i < kCount; ++i) {
      const auto end = static_cast<int32_t>(tokens_[i].size());
      const int32_t first = computed_[i];
      AppendSequence(profile_,
                     {.tokens = tokens_[i],
                      .prompt_len = prompt_lens_[i],
                      .pages = pages_[i],
                      .sampling = sampling_,
                      .stopping = {}},
                     {.first_position = first, .num_tokens = end - first, .samples = true}, &plan);
      computed_[i] = end;
    }
    const absl::StatusOr<StepHandle> handle = runtime->Launch(plan);
    EXPECT_TRUE(handle.ok()) << handle.status();
    StepResult result;
    EXPECT_TRUE(runtime->Collect(*handle, &result).ok());
    EXPECT_EQ(result.outputs.size(), kCount) << "rows that fill the shape give no token";
    std::vector<std::pair<TokenId, uint32_t>> drawn;
    for (size_t i = 0; i < kCount; ++i) {
      const kernels::TokenOutput& token = result.outputs[i].token;
      drawn.emplace_back(token.token_id, std::bit_cast<uint32_t>(token.logprob));
      tokens_[i].push_back(token.token_id);
    }
    return drawn;
  }

 private:
  ExecutionProfile profile_;
  SamplingParams sampling_;
  std::vector<TokenId> tokens_[kCount];
  std::vector<PageId> pages_[kCount];
  int32_t prompt_lens_[kCount] = {};
  int32_t computed_[kCount] = {};
};

using Draws = std::vector<std::vector<std::pair<TokenId, uint32_t>>>;

Draws DrawsOf(ModelRuntime* runtime, Precision precision, int32_t vocab_size, int num_steps) {
  FiveSequences sequences(*runtime, precision, vocab_size);
  Draws draws;
  for (int step = 0; step < num_steps; ++step) draws.push_back(sequences.Step(runtime));
  return draws;
}

// Without recording and rounding.
Draws DrawsUnrecorded(const TestModel& test, Precision precision, int num_steps) {
  const auto runtime = *ModelRuntime::Create(test.model.get(), RecordingOptions(ExecutionMode::kEager));
  return DrawsOf(runtime.get(), precision, test.model->config().vocab_size, num_steps);
}

class RecordedStepsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RecordedStepsTest, TheFirstDecodeStepIsAGraphWithTheBitsOfStepsThatAreNotRounded) {
  const std::vector<Precision> precisions = {Precision::kBf16, Precision::kFp16};
  const TestModel test = LoadRecordingModel(GetParam(), precisions);
  const EngineOptions options = RecordingOptions(ExecutionMode::kFused);
  const auto runtime = *ModelRuntime::Create(test.model.get(), options);
  const size_t shapes = DecodeShapes(kRecordedSequences, runtime->memory_plan().max_context_tokens).size();
  std::string notice;
  {
    const GraphCount graphs;
    ASSERT_TRUE(runtime->WarmUp(RecordedProfiles(test, options), &notice).ok());
    EXPECT_EQ(graphs.sizes().size(), precisions.size() * shapes) << "each is launched once";
  }
  EXPECT_THAT(notice, IsEmpty());
  EXPECT_EQ(static_cast<size_t>(runtime->graphs()->num_graphs()), precisions.size() * shapes);
  for (const Precision precision : precisions) {
    const GraphCount graphs;
    const Draws draws = DrawsOf(runtime.get(), precision, test.model->config().vocab_size, 6);
    EXPECT_EQ(graphs.launched(), 5) << "all but the prompts";
    EXPECT_EQ(draws, DrawsUnrecorded(test, precision, 6)) << kernels::Name(precision);
  }
}

// Rotation, experts, windows with pages of their own, latent rows, chosen keys, ALiBi.
INSTANTIATE_TEST_SUITE_P(Models, RecordedStepsTest,
                         ::testing::Values("gpt2_tiny", "llama_gqa", "mixtral_tiny", "gemma2_tiny", "deepseek_v3_tiny",
                                           "deepseek_v32_tiny", "bloom_tiny", "gemma4_moe_tiny"),
                         [](const auto& model) { return std::string(model.param); });

// Scales of all rows of a step: those that repeat a row do not change the largest value.
TEST(RecordedStepsOfFp8Test, RowsThatRepeatOthersLeaveSharedScalesAsTheyAre) {
  const TestModel test = LoadRecordingModel("llama_gqa", {Precision::kFp8});
  Draws draws[2];
  for (const ExecutionMode execution : {ExecutionMode::kEager, ExecutionMode::kFused}) {
    EngineOptions options = RecordingOptions(execution);
    options.deterministic = false;
    options.fp8.recipe = Fp8Recipe::kDelayed;
    const auto runtime = *ModelRuntime::Create(test.model.get(), options);
    std::string notice;
    ASSERT_TRUE(runtime->WarmUp(RecordedProfiles(test, options), &notice).ok());
    EXPECT_EQ(runtime->graphs()->num_graphs(), 0) << "the recipe's state comes from requests";
    const GraphCount graphs;
    const bool fused = execution == ExecutionMode::kFused;
    draws[fused ? 1 : 0] = DrawsOf(runtime.get(), Precision::kFp8, test.model->config().vocab_size, 6);
    EXPECT_EQ(graphs.launched(), fused ? 4 : 0);
  }
  EXPECT_EQ(draws[1], draws[0]);
}

TEST(RecordedStepsOfADeviceTest, AGraphThatLacksAnOperationIsFoundAndLeftOut) {
  const TestModel test = LoadRecordingModel("llama_gqa", {Precision::kBf16});
  const EngineOptions options = RecordingOptions(ExecutionMode::kFused);
  const Draws expected = DrawsUnrecorded(test, Precision::kBf16, 3);
  int num_operations = 1;
  for (int lacking = 0; lacking < num_operations; ++lacking) {
    const auto runtime = *ModelRuntime::Create(test.model.get(), options);
    std::string notice;
    {
      const GraphCount graphs;
      const ScopedFault lack(kernels::kFakeGraphsLack, std::to_string(lacking));
      ASSERT_TRUE(runtime->WarmUp(RecordedProfiles(test, options), &notice).ok());
      ASSERT_EQ(graphs.launched(), 1);
      num_operations = graphs.sizes().front() + 1;
    }
    EXPECT_THAT(notice, HasSubstr("a recorded decode step of 1 rows in bf16 has other bits than its operations"))
        << "without operation " << lacking;
    EXPECT_FALSE(runtime->graphs()->on());
    const GraphCount graphs;
    EXPECT_EQ(DrawsOf(runtime.get(), Precision::kBf16, test.model->config().vocab_size, 3), expected);
    EXPECT_EQ(graphs.launched(), 0);
  }
  EXPECT_GT(num_operations, 10);
}

TEST(RecordedStepsOfADeviceTest, ADeviceThatRefusesToRecordServesWithAWarning) {
  const TestModel test = LoadRecordingModel("gpt2_tiny", {Precision::kBf16});
  const EngineOptions options = RecordingOptions(ExecutionMode::kFused);
  const ScopedFault refuses(kernels::kFakeRefusesGraphs, "1");
  const auto runtime = *ModelRuntime::Create(test.model.get(), options);
  std::string notice = "of the algorithms";
  ASSERT_TRUE(runtime->WarmUp(RecordedProfiles(test, options), &notice).ok());
  EXPECT_EQ(notice,
            "of the algorithms; the device could not record decode steps, so that every operation of a step is "
            "launched by itself, as with compute.cuda_graphs: false");
  EXPECT_FALSE(runtime->graphs()->on());
  EXPECT_EQ(runtime->graphs()->num_failed(), 3) << "it is not asked for every shape";
  EXPECT_EQ(DrawsOf(runtime.get(), Precision::kBf16, test.model->config().vocab_size, 3),
            DrawsUnrecorded(test, Precision::kBf16, 3));
}

TEST(RecordedStepsOfADeviceTest, NothingIsRecordedWhereTheConfigSaysSo) {
  const TestModel test = LoadRecordingModel("gpt2_tiny", {Precision::kBf16}, /*cuda_graphs=*/false);
  const EngineOptions options = RecordingOptions(ExecutionMode::kFused);
  const auto runtime = *ModelRuntime::Create(test.model.get(), options);
  EXPECT_EQ(runtime->memory_plan()[BufferId::kGraphs], 0U);
  const GraphCount graphs;
  std::string notice;
  ASSERT_TRUE(runtime->WarmUp(RecordedProfiles(test, options), &notice).ok());
  EXPECT_EQ(DrawsOf(runtime.get(), Precision::kBf16, test.model->config().vocab_size, 3),
            DrawsUnrecorded(test, Precision::kBf16, 3));
  EXPECT_EQ(graphs.launched(), 0);
  EXPECT_THAT(notice, IsEmpty());
}

}  // namespace
}  // namespace dunlin::engine
