// SPDX-License-Identifier: Apache-2.0
// Pages behind sliding windows, given back by engines that serve real models: the same bits as where they are kept,
// in pools that would not hold them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/spec/attention_shape.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kPromptTokens = 90;
constexpr int32_t kOutputTokens = 60;
constexpr int32_t kComputed = kPromptTokens + kOutputTokens - 1;
constexpr int32_t kStepTokens = 16;
constexpr int32_t kPageTokens = 8;  // of FP32, the precision that needs most pages

class SlidingWindows : public ::testing::TestWithParam<const char*> {
 protected:
  // An engine with so many pages.
  EngineOptions Options(int64_t num_pages, bool frees) const {
    EngineOptions options;
    options.max_tokens_per_step = kStepTokens;
    options.kv_memory_bytes = static_cast<size_t>(num_pages) * KvLayoutOf(config_, Precision::kFp32).page_bytes;
    options.free_pages_behind_windows = frees;
    return options;
  }
  // Pages that a request takes when it keeps all of them, and when it gives back those behind windows.
  int64_t AllPages() const { return int64_t{groups_.count()} * PagesFor(kComputed, kPageTokens); }
  int64_t MostPages() const { return groups_.MostPages(kComputed, kPageTokens, kStepTokens); }

  Request RequestOf(const ExecutionProfile& profile, TokenId first) const {
    Request request;
    request.profile = profile;
    for (int32_t i = 0; i < kPromptTokens; ++i) {
      request.prompt.push_back((first + i * i) % (config_.vocab_size - 3) + 3);
    }
    request.stopping.max_tokens = kOutputTokens;
    request.stopping.ignore_eos = true;
    request.sampling.seed = static_cast<uint64_t>(first);
    request.sampling.logprobs = 2;
    return request;
  }

  TestModel test_ = LoadTestModel(GoldenModelPath(GetParam()), "", 2, {Precision::kFp32, Precision::kBf16});
  const ModelConfig& config_ = test_.model->config();
  const KvGroups groups_ = KvGroupsOf(config_);
};

TEST_P(SlidingWindows, ARequestGetsTheSameBitsInAPoolThatWouldNotHoldAllOfItsPages) {
  ASSERT_LT(MostPages(), AllPages());
  RecordProperty("pages", std::to_string(MostPages()) + " of " + std::to_string(AllPages()));
  EngineClient keeps(test_.model.get(), Options(AllPages(), false));
  EngineClient small_keeps(test_.model.get(), Options(MostPages(), false));
  EngineClient frees(test_.model.get(), Options(MostPages(), true));
  for (const ExecutionProfile& profile : SupportedProfiles(*test_.model, {Precision::kFp32, Precision::kBf16})) {
    const Request request = RequestOf(profile, 17);
    if (profile.precision == Precision::kFp32) {
      EXPECT_THAT(std::string(small_keeps.engine().Validate(request).message()), ::testing::HasSubstr("KV pages"));
    }
    const Response expected = keeps.Run(request);
    const Response response = frees.Run(request);
    std::string why;
    EXPECT_TRUE(SameBits(response, expected, &why)) << why << "; " << kernels::Name(profile.attention_backend);
    EXPECT_EQ(response.tokens.size(), static_cast<size_t>(kOutputTokens));
    EXPECT_EQ(response.finish.preemptions, 0);
  }
  frees.engine().Stop();
  EXPECT_EQ(frees.engine().stats().pages_used, 0);
}

// Beside each other, with cached prefixes and preemptions.
TEST_P(SlidingWindows, RequestsBesideEachOtherGetTheirBitsAlone) {
  EngineClient keeps(test_.model.get(), Options(AllPages(), false));
  EngineClient frees(test_.model.get(), Options(MostPages() * 3 / 2, true));
  std::vector<std::pair<Request, std::shared_ptr<RecordingSink>>> running;
  for (const ExecutionProfile& profile : SupportedProfiles(*test_.model, {Precision::kFp32, Precision::kBf16})) {
    for (const TokenId first : {17, 40}) {
      Request request = RequestOf(profile, first);
      if (first == 40) request.prompt.resize(12);  // grows behind its start
      running.emplace_back(request, frees.Submit(request));
    }
  }
  for (const auto& [request, sink] : running) {
    Request alone = request;
    alone.bypass_prefix_cache = true;
    std::string why;
    EXPECT_TRUE(SameBits(sink->Wait(), keeps.Run(alone), &why)) << why;
  }
}

TEST_P(SlidingWindows, AConversationGoesOnFromPagesThatWereGivenBack) {
  EngineClient keeps(test_.model.get(), Options(AllPages(), false));
  EngineClient frees(test_.model.get(), Options(4 * AllPages(), true));
  for (const ExecutionProfile& profile : SupportedProfiles(*test_.model, {Precision::kFp32, Precision::kBf16})) {
    Request request = RequestOf(profile, 17);
    request.stopping.max_tokens = 31;
    for (const TokenId token : TokenIds(frees.Run(request))) request.prompt.push_back(token);
    request.stopping.max_tokens = 20;
    const Response response = frees.Run(request);
    EXPECT_GE(response.finish.cached_tokens, 112) << "of 120 computed ones, whole pages";
    request.bypass_prefix_cache = true;
    std::string why;
    EXPECT_TRUE(SameBits(response, keeps.Run(request), &why)) << why;
  }
}

std::string ModelName(const ::testing::TestParamInfo<const char*>& info) {
  return info.param;
}

INSTANTIATE_TEST_SUITE_P(Models, SlidingWindows,
                         ::testing::Values("mistral_window", "phi3_tiny", "qwen2_window", "gemma2_tiny", "gemma3_tiny",
                                           "gemma4_tiny", "gemma4_e_tiny", "gpt_oss_tiny", "exaone4_tiny",
                                           "llama4_tiny", "deepseek_v4_tiny"),
                         ModelName);

}  // namespace
}  // namespace dunlin::engine
