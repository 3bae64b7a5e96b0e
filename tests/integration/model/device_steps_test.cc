// SPDX-License-Identifier: Apache-2.0
// Steps on a device that works behind the host's back: the fake module does what it is given only when it is waited
// for. What the engine stages, enqueues and collects gives the CPU's bits at any depth, and takes no memory while it
// serves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <optional>

#include "engine/plan/sequence_view.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/graph_count.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"
#include "tests/kernels/loader/fake_cuda.h"
#include "tests/simulation/scripted_constraint.h"

namespace dunlin::engine {
namespace {

constexpr char kModule[] = DUNLIN_MODULE_DIR "/libfake_cuda.so";

TestModel LoadModuleModel(const std::string& path, const std::vector<Precision>& precisions) {
  kernels::DeviceOptions options;
  options.cuda_module = kModule;
  std::string error;
  auto device = kernels::OpenDevice(DeviceKind::kCuda, options, &error);
  EXPECT_NE(device, nullptr) << error;
  return LoadTestModel(path, std::move(device), precisions);
}

// The fake has no FLASH in FP32.
std::vector<ExecutionProfile> Profiles(DeviceKind device) {
  std::vector<ExecutionProfile> profiles;
  for (ExecutionProfile profile : AllCpuProfiles()) {
    if (profile.precision == Precision::kFp32 && profile.attention_backend == AttentionBackend::kFlash) continue;
    profile.device = device;
    profiles.push_back(profile);
  }
  return profiles;
}

class DeviceStepsTest : public ::testing::TestWithParam<int32_t> {
 protected:
  TestModel cpu_ = LoadTestModel(GoldenModelPath("gpt2_tiny"), "", 2, kAllPrecisions);
  TestModel fake_ = LoadModuleModel(GoldenModelPath("gpt2_tiny"), kAllPrecisions);
};

TEST_P(DeviceStepsTest, ResponsesAreTheCpusAndTheDeviceGivesOutNoMemory) {
  RequestMix mix(17);
  EngineOptions options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 64;
  const auto constraint = simulation::ScriptedConstraint::Chain({{{101, 102, 103}}, {{104}}, {{105, 106}}}, {});
  std::vector<Request> requests;
  std::vector<Response> expected;
  {
    EngineClient client(cpu_.model.get(), options);
    for (int round = 0; round < 3; ++round) {
      for (const ExecutionProfile& profile : Profiles(DeviceKind::kCpu)) {
        requests.push_back(mix.DrawRequest(cpu_.model->config(), profile));
        if (round == 2) requests.back().constraint = constraint;
        expected.push_back(client.Run(requests.back()));
      }
    }
  }
  options.steps_in_flight = GetParam();
  const GraphCount graphs;
  EngineClient client(fake_.model.get(), options);
  const kernels::Device& device = *fake_.device;
  const kernels::DeviceMemory before = device.ops->memory(device.context);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (Request& request : requests) {
    request.profile.device = DeviceKind::kCuda;
    sinks.push_back(client.Submit(request));
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    std::string why;
    EXPECT_TRUE(SameBits(sinks[i]->Wait(), expected[i], &why)) << "request " << i << ": " << why;
  }
  const kernels::DeviceMemory after = device.ops->memory(device.context);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.bytes_peak, before.bytes_peak);
  EXPECT_EQ(client.engine().stats().device_memory_peak_bytes, before.bytes_peak);
  EXPECT_GT(graphs.launched(), 0) << "no decode step repeated";
}

INSTANTIATE_TEST_SUITE_P(Depths, DeviceStepsTest, ::testing::Values(0, 1, 2));

// Alone, a sequence's decode steps are alike: all but the first are launched as one graph, until the bound of its keys
// grows. What a graph computes is what its operations do.
TEST(StepGraphsOfADeviceTest, GreedyTokensAreThoseWithoutGraphs) {
  TestModel fake = LoadModuleModel(GoldenModelPath("gpt2_tiny"), {Precision::kBf16});
  Request request;
  request.prompt = {1, 2, 3, 4, 5};
  request.sampling.temperature = 0.0F;
  request.profile.device = DeviceKind::kCuda;
  request.stopping.max_tokens = 40;
  request.stopping.ignore_eos = true;
  Response responses[2];
  for (const ExecutionMode mode : {ExecutionMode::kEager, ExecutionMode::kFused}) {
    const bool fused = mode == ExecutionMode::kFused;
    EngineOptions options;
    options.execution = mode;
    const GraphCount graphs;
    EngineClient client(fake.model.get(), options);
    responses[fused ? 1 : 0] = client.Run(request);
    EXPECT_EQ(graphs.launched(), fused ? 38 : 0) << "of 39 decode steps, the first of a shape runs as it is";
  }
  std::string why;
  EXPECT_TRUE(SameBits(responses[1], responses[0], &why)) << why;
}

// Sequences over their first tokens, one sub-batch each, so that a step stages several.
class StepsByHand {
 public:
  explicit StepsByHand(TokenId first, size_t num_sequences = 2) : first_(first), num_sequences_(num_sequences) {}
  // Every token has a bias, so that a row's lists are long.
  void BiasAll(int32_t vocab_size) {
    for (TokenId id = 0; id < vocab_size; ++id) biases_.emplace_back(id, static_cast<float>(id % 7));
  }
  // One step of every sequence, or of sequence i alone.
  StepPlan plan() const {
    StepPlan plan;
    for (size_t i = 0; i < num_sequences_; ++i) Append(i, &plan);
    return plan;
  }
  StepPlan plan(size_t i) const {
    StepPlan plan;
    Append(i, &plan);
    return plan;
  }
  // The step after plan(), with a token of each sequence.
  StepPlan next(const std::vector<TokenId>& tokens) const {
    StepPlan plan;
    for (size_t i = 0; i < num_sequences_; ++i) Append(i, &plan, tokens[i]);
    return plan;
  }

 private:
  void Append(size_t i, StepPlan* plan, std::optional<TokenId> next = std::nullopt) const {
    std::vector<TokenId> tokens(5 + i % 3);
    std::iota(tokens.begin(), tokens.end(), first_);
    const auto prompt_len = static_cast<int32_t>(tokens.size());
    if (next.has_value()) tokens.push_back(*next);
    const PageId page = first_ / 10 * static_cast<PageId>(num_sequences_) + static_cast<PageId>(i);
    ExecutionProfile profile;
    profile.precision = i % 2 == 0 ? Precision::kBf16 : Precision::kFp16;
    profile.device = DeviceKind::kCuda;
    SamplingParams sampling;
    sampling.seed = static_cast<uint64_t>(first_) + i;
    sampling.logit_bias = biases_;
    const int32_t begin = next.has_value() ? prompt_len : 0;
    AppendSequence(
        profile,
        {.tokens = tokens,
         .prompt_len = prompt_len,
         .pages = std::span(&page, 1),
         .sampling = sampling,
         .stopping = {}},
        {.first_position = begin, .num_tokens = static_cast<int32_t>(tokens.size()) - begin, .samples = true}, plan);
  }

  TokenId first_;
  size_t num_sequences_;
  std::vector<std::pair<TokenId, float>> biases_;
};

std::vector<TokenId> TokensOf(const StepResult& result) {
  std::vector<TokenId> tokens;
  for (const StepOutput& output : result.outputs) tokens.push_back(output.sampled ? output.token.token_id : -1);
  return tokens;
}

std::vector<TokenId> RunAlone(const Model* model, const EngineOptions& options, const StepPlan& plan) {
  const auto runtime = *ModelRuntime::Create(model, options);
  StepResult result;
  const absl::StatusOr<StepHandle> handle = runtime->Launch(plan);
  EXPECT_TRUE(handle.ok()) << handle.status();
  EXPECT_TRUE(runtime->Collect(*handle, &result).ok());
  return TokensOf(result);
}

class StepsInFlightTest : public ::testing::Test {
 protected:
  TestModel fake_ = LoadModuleModel(GoldenModelPath("gpt2_tiny"), {Precision::kBf16, Precision::kFp16});
  EngineOptions options_;
};

// Both are staged before anything of the first has been copied.
TEST_F(StepsInFlightTest, TwoStepsInFlightHaveStagingOfTheirOwn) {
  const StepPlan first = StepsByHand(10).plan();
  const StepPlan second = StepsByHand(20).plan();
  const std::vector<TokenId> expected[] = {RunAlone(fake_.model.get(), options_, first),
                                           RunAlone(fake_.model.get(), options_, second)};
  EXPECT_NE(expected[0], expected[1]);
  options_.steps_in_flight = 2;
  const auto runtime = *ModelRuntime::Create(fake_.model.get(), options_);
  EXPECT_EQ(runtime->depth(), 2);
  for (int round = 0; round < 3; ++round) {
    const StepHandle handles[] = {*runtime->Launch(first), *runtime->Launch(second)};
    StepResult result;
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(runtime->Collect(handles[step], &result).ok());
      EXPECT_EQ(TokensOf(result), expected[step]) << "round " << round << " step " << step;
    }
  }
}

// The second step has no token of its own: it takes what the first draws, from the device.
TEST_F(StepsInFlightTest, AStepTakesTheTokensThatTheOneBeforeDraws) {
  const auto runtime = *ModelRuntime::Create(fake_.model.get(), options_);
  ASSERT_EQ(runtime->depth(), 2);
  ASSERT_TRUE(runtime->takes_drawn_tokens());
  const StepsByHand prompts(10, 5);
  StepPlan unknown = prompts.next({0, 0, 0, 0, 0});
  for (int32_t i = 0; i < 5; ++i) unknown.sequences[static_cast<size_t>(i)].drawn_by = i;
  StepResult first;
  StepResult second;
  const StepHandle handles[] = {*runtime->Launch(prompts.plan()), *runtime->Launch(unknown)};
  ASSERT_TRUE(runtime->Collect(handles[0], &first).ok());
  ASSERT_TRUE(runtime->Collect(handles[1], &second).ok());
  StepResult known;
  const std::vector<TokenId> drawn = TokensOf(first);
  ASSERT_TRUE(runtime->Collect(*runtime->Launch(prompts.next(drawn)), &known).ok());
  EXPECT_EQ(TokensOf(second), TokensOf(known));
  StepResult others;
  ASSERT_TRUE(runtime->Collect(*runtime->Launch(prompts.next({0, 0, 0, 0, 0})), &others).ok());
  EXPECT_NE(TokensOf(others), TokensOf(known)) << "the token changes nothing";
}

TEST_F(StepsInFlightTest, AreTwoWhereTheDeviceComputesWhileTheHostGoesOn) {
  const auto depth = [this](const TestModel& test) {
    return (*ModelRuntime::Create(test.model.get(), options_))->depth();
  };
  EXPECT_EQ(depth(fake_), 2);
  EXPECT_EQ(depth(LoadTestModel(GoldenModelPath("gpt2_tiny"), "", 1, {Precision::kBf16})), 1);
  EXPECT_EQ(depth(LoadModuleModel(GoldenModelPath("mamba2_tiny"), {Precision::kBf16})), 1);
  options_.plan_ahead = false;
  EXPECT_EQ(depth(fake_), 1);
}

TEST_F(StepsInFlightTest, RowsWhoseListsDoNotFitTogetherAreSampledInTurns) {
  options_.max_sequences = 8;
  const int32_t vocab_size = fake_.model->config().vocab_size;
  StepsByHand together(10, 8);
  together.BiasAll(vocab_size);
  const std::vector<TokenId> tokens = RunAlone(fake_.model.get(), options_, together.plan());
  const auto runtime = *ModelRuntime::Create(fake_.model.get(), options_);
  EXPECT_LT(runtime->memory_plan()[BufferId::kSampleRows], size_t{8} * 2 * static_cast<size_t>(vocab_size) * 4)
      << "the lists of all rows fit: nothing was shown";
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(RunAlone(fake_.model.get(), options_, together.plan(i)), std::vector<TokenId>{tokens[i]}) << i;
  }
}

TEST_F(StepsInFlightTest, AFailureInAStepShowsWhenItIsCollected) {
  const std::string file = "/tmp/dunlin_step_fails_" + std::to_string(getpid());
  const StepPlan plan = StepsByHand(10).plan();
  const auto runtime = *ModelRuntime::Create(fake_.model.get(), options_);
  const absl::StatusOr<StepHandle> handle = runtime->Launch(plan);
  ASSERT_TRUE(handle.ok());
  setenv(kernels::kFakeFailFile, file.c_str(), 1);
  std::ofstream(file) << "now";
  StepResult result;
  EXPECT_EQ(runtime->Collect(*handle, &result).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(runtime->Launch(plan).status().code(), absl::StatusCode::kInternal);
  std::remove(file.c_str());
  unsetenv(kernels::kFakeFailFile);
}

}  // namespace
}  // namespace dunlin::engine
