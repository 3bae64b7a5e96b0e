// Steps on a device that works behind the host's back: the fake module does what it is given only when it is waited
// for. What the engine stages, enqueues and collects gives the CPU's bits at any depth, and takes no memory while it
// serves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"
#include "tests/kernels/module/fake_cuda.h"

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
  std::vector<Request> requests;
  std::vector<Response> expected;
  {
    EngineClient client(cpu_.model.get(), options);
    for (int round = 0; round < 3; ++round) {
      for (const ExecutionProfile& profile : Profiles(DeviceKind::kCpu)) {
        requests.push_back(mix.DrawRequest(cpu_.model->config(), profile));
        expected.push_back(client.Run(requests.back()));
      }
    }
  }
  options.steps_in_flight = GetParam();
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
}

INSTANTIATE_TEST_SUITE_P(Depths, DeviceStepsTest, ::testing::Values(1, 2));

// Sequences over their first tokens, one sub-batch each, so that a step stages several.
class StepsByHand {
 public:
  explicit StepsByHand(TokenId first, size_t num_sequences = 2) : sequences_(num_sequences) {
    for (size_t i = 0; i < num_sequences; ++i) {
      Sequence& sequence = sequences_[i];
      for (TokenId t = 0; t < 5 + static_cast<TokenId>(i % 3); ++t) sequence.tokens.push_back(first + t);
      sequence.prompt_len = sequence.num_tokens();
      sequence.pages = {first / 10 * static_cast<PageId>(num_sequences) + static_cast<PageId>(i)};
      sequence.request.profile.precision = i % 2 == 0 ? Precision::kBf16 : Precision::kFp16;
      sequence.request.profile.device = DeviceKind::kCuda;
      sequence.request.sampling.seed = static_cast<uint64_t>(first) + i;
      const auto at = static_cast<int32_t>(i);
      plan_.sub_batches.push_back({sequence.request.profile, at, 1, sequence.prompt_len});
      plan_.sequences.push_back({&sequence, 0, sequence.prompt_len, true});
      plan_.num_tokens += sequence.prompt_len;
    }
  }
  // Every token has a bias, so that a row's lists are long.
  void BiasAll(int32_t vocab_size) {
    for (Sequence& sequence : sequences_) {
      for (TokenId id = 0; id < vocab_size; ++id) {
        sequence.request.sampling.logit_bias.emplace_back(id, static_cast<float>(id % 7));
      }
    }
  }
  const StepPlan& plan() const { return plan_; }

 private:
  std::vector<Sequence> sequences_;
  StepPlan plan_;
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
  const StepsByHand first(10);
  const StepsByHand second(20);
  const std::vector<TokenId> expected[] = {RunAlone(fake_.model.get(), options_, first.plan()),
                                           RunAlone(fake_.model.get(), options_, second.plan())};
  EXPECT_NE(expected[0], expected[1]);
  options_.steps_in_flight = 2;
  const auto runtime = *ModelRuntime::Create(fake_.model.get(), options_);
  EXPECT_EQ(runtime->depth(), 2);
  for (int round = 0; round < 3; ++round) {
    const StepHandle handles[] = {*runtime->Launch(first.plan()), *runtime->Launch(second.plan())};
    StepResult result;
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(runtime->Collect(handles[step], &result).ok());
      EXPECT_EQ(TokensOf(result), expected[step]) << "round " << round << " step " << step;
    }
  }
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
    StepPlan alone;
    alone.sub_batches.push_back(together.plan().sub_batches[i]);
    alone.sub_batches[0].first_sequence = 0;
    alone.sequences.push_back(together.plan().sequences[i]);
    EXPECT_EQ(RunAlone(fake_.model.get(), options_, alone), std::vector<TokenId>{tokens[i]}) << i;
  }
}

TEST_F(StepsInFlightTest, AFailureInAStepShowsWhenItIsCollected) {
  const std::string file = "/tmp/dunlin_step_fails_" + std::to_string(getpid());
  const StepsByHand steps(10);
  const auto runtime = *ModelRuntime::Create(fake_.model.get(), options_);
  const absl::StatusOr<StepHandle> handle = runtime->Launch(steps.plan());
  ASSERT_TRUE(handle.ok());
  setenv(kernels::kFakeFailFile, file.c_str(), 1);
  std::ofstream(file) << "now";
  StepResult result;
  EXPECT_EQ(runtime->Collect(*handle, &result).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(runtime->Launch(steps.plan()).status().code(), absl::StatusCode::kInternal);
  std::remove(file.c_str());
  unsetenv(kernels::kFakeFailFile);
}

}  // namespace
}  // namespace dunlin::engine
