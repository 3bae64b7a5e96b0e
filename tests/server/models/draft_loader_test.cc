// SPDX-License-Identifier: Apache-2.0
// A model with a draft model, from its config to what it generates.
#include "server/models/draft_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "engine/parallel/rank_devices.h"
#include "server/models/default_precisions.h"
#include "server/models/loader.h"
#include "server/models/memory_budget.h"

namespace dunlin::server {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr char kDemo[] = DUNLIN_SOURCE_DIR "/models/demo";
constexpr char kGolden[] = DUNLIN_SOURCE_DIR "/tests/golden/models/";

class Output : public engine::OutputSink {
 public:
  bool OnToken(const engine::TokenOutput& token) override {
    tokens.push_back(token.token_id);
    return true;
  }
  void OnPromptToken(int32_t /*position*/, const engine::TokenOutput& /*token*/) override {}
  void OnFinish(const engine::FinishInfo& finish) override {
    info = finish;
    ended.count_down();
  }
  std::vector<engine::TokenId> tokens;
  engine::FinishInfo info;
  std::latch ended{1};
};

class DraftLoader : public ::testing::Test {
 protected:
  DraftLoader() {
    std::string error;
    device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, options_, &error);
  }

  // The config's first model, its memory planned.
  absl::StatusOr<std::unique_ptr<ServedModel>> Load(const std::string& path, const std::string& draft,
                                                    int32_t num_ranks = 1) {
    auto config = LoadConfigText(R"({"models": [{"name": "m", "precisions": ["fp32"], "path": ")" + path +
                                     R"(", "kv_cache": {"memory_bytes": 16777216}, "max_context_tokens": 128,
                                     "parallel": {"tensor": )" +
                                     std::to_string(num_ranks) + R"(}, "speculation": {"draft": ")" + draft +
                                     R"(", "draft_sequences": 2}}]})",
                                 {});
    if (!config.ok()) return config.status();
    config = WithDefaultPrecisions(*std::move(config), {device_.get()});
    if (!config.ok()) return config.status();
    const auto budget = PlanServerMemory(*config, {device_.get()}, ReadHostFacts());
    if (!budget.ok()) return budget.status();
    memory_ = budget->models[0];
    config->models[0].draft.kv_memory_bytes = memory_.draft_kv;
    config->models[0].engine.adapt_drafts = false;  // the demo as its own draft never pays
    const std::atomic<bool> stop{false};
    std::vector<kernels::Device*> ranks;
    if (num_ranks > 1) {
      auto opened = engine::OpenRankDevices(*device_, options_, num_ranks, {});
      if (!opened.ok()) return opened.status();
      ranks_ = *std::move(opened);
      for (const auto& rank : ranks_) ranks.push_back(rank.get());
    }
    return LoadModel(config->models[0], device_.get(), nullptr, stop, ranks);
  }

  const kernels::DeviceOptions options_ = {2, "portable"};
  std::unique_ptr<kernels::Device> device_;
  std::vector<std::unique_ptr<kernels::Device>> ranks_;
  ModelMemory memory_;
};

TEST_F(DraftLoader, GivesAModelThatSpeculatesWithTheTokensOfOneThatDoesNot) {
  auto served = Load(kDemo, kDemo);
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ((*served)->draft_model->precisions(), std::vector{engine::Precision::kBf16});
  EXPECT_GT(memory_.draft, memory_.draft_kv);
  EXPECT_GT(memory_.draft_kv, 0U);
  EXPECT_GT(memory_.total(), memory_.draft + memory_.kv);
  engine::Request request;
  request.profile = *(*served)->profiles->Resolve({});
  request.prompt = *(*served)->tokenizer->Encode("Once upon a time there was");
  request.sampling.temperature = 0.0F;
  request.stopping.max_tokens = 60;
  request.stopping.ignore_eos = true;
  std::vector<engine::TokenId> tokens[2];
  for (const int32_t max_drafts : {0, 4}) {
    request.max_drafts = max_drafts;
    const auto output = std::make_shared<Output>();
    ASSERT_TRUE((*served)->engine->Submit(request, output).ok());
    output->ended.wait();
    tokens[max_drafts / 4] = output->tokens;
    EXPECT_EQ(output->info.drafted_tokens > 0, max_drafts > 0);
    EXPECT_EQ(output->info.accepted_tokens > 10, max_drafts > 0);
  }
  EXPECT_EQ(tokens[0], tokens[1]);
}

TEST_F(DraftLoader, TakesTheLayerOfTheCheckpointThatPredicts) {
  std::vector<std::vector<engine::TokenId>> tokens;
  for (const int32_t num_ranks : {1, 2}) {
    auto served = Load(DUNLIN_SOURCE_DIR "/tests/golden/predictors/glm4_moe_mtp", "mtp", num_ranks);
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_EQ((*served)->draft_model, nullptr);
    EXPECT_EQ(memory_.draft, 0U);
    EXPECT_EQ((*served)->model->config().num_predictors, 1);
    engine::Request request;
    request.profile = *(*served)->profiles->Resolve({});
    request.prompt = {5, 9, 13, 21, 9, 13};
    request.sampling.temperature = 0.0F;
    request.stopping.max_tokens = 60;
    request.stopping.ignore_eos = true;
    for (const int32_t max_drafts : {0, 4}) {
      request.max_drafts = max_drafts;
      const auto output = std::make_shared<Output>();
      ASSERT_TRUE((*served)->engine->Submit(request, output).ok());
      output->ended.wait();
      tokens.push_back(output->tokens);
      EXPECT_EQ(output->info.drafted_tokens > 0, max_drafts > 0);
    }
  }
  EXPECT_THAT(tokens, Each(tokens.front()));
  const auto without = Load(std::string(kGolden) + "llama_gqa", "mtp");
  EXPECT_EQ(without.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(without.status().message()), HasSubstr("has no layer that predicts further tokens"));
}

TEST_F(DraftLoader, RefusesAnotherVocabulary) {
  const auto sizes = Load(std::string(kGolden) + "llama_gqa", std::string(kGolden) + "llama_tied");
  EXPECT_EQ(sizes.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(sizes.status().message()),
              HasSubstr("models[].speculation.draft: its vocabulary has 131 tokens, the model's 515"));
  const auto text = [](const std::string& json) { return *text::Tokenizer::FromJson(json, "", 0); };
  const std::string head = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, ")";
  const auto one = text(head + R"(c": 2}, "merges": []}})");
  const auto other = text(head + R"(d": 2}, "merges": []}})");
  const auto longer = text(head + R"(c": 2, "d": 3}, "merges": []}})");
  EXPECT_TRUE(CheckSameVocabulary(*one, *one).ok());
  EXPECT_EQ(CheckSameVocabulary(*one, *other).message(),
            "it has another vocabulary: token 2 is \"d\", the model's is \"c\"");
  EXPECT_EQ(CheckSameVocabulary(*longer, *one).message(),
            "it has another vocabulary: token 3 is none, the model's is \"d\"");
}

TEST_F(DraftLoader, NamesTheKeyOfADraftModelThatCannotBeOpened) {
  const auto missing = Load(kDemo, "/there/is/none");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("model \"m\": models[].speculation.draft: "));
  const auto recurrent = Load(std::string(kGolden) + "qwen35_tiny", std::string(kGolden) + "qwen35_tiny");
  EXPECT_EQ(recurrent.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(recurrent.status().message()),
              HasSubstr("models[].speculation.draft: qwen3_5_text has recurrent layers, whose state"));
}

}  // namespace
}  // namespace dunlin::server
