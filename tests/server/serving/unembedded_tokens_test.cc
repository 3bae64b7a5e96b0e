// SPDX-License-Identifier: Apache-2.0
// Added tokens beyond the rows of a model's embedding: refused where a prompt has one, harmless everywhere else.
#include "server/serving/text/unembedded_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "server/serving/embed/embed_plan.h"
#include "server/serving/generation/generation_plan.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::Pair;

class UnembeddedTokensTest : public testing::Test {
 protected:
  UnembeddedTokensTest() : models_(engine::EngineOptions()), core_(limits_, models_.repository(), nullptr, {}) {
    models_.AddUnembedded();
  }

  absl::StatusOr<GenerationPlan> Plan(const ClientRequest& request) { return PlanGeneration(request, core_, &record_); }
  absl::StatusOr<EmbedPlan> Plan(const ClientEmbedRequest& request) { return PlanEmbed(request, core_, &record_); }

  const Limits limits_{};
  TestModels models_;
  ServingCore core_;
  RequestRecord record_;
};

TEST_F(UnembeddedTokensTest, AreRefusedInAPromptOnly) {
  ClientRequest request;
  request.model = "unembedded";
  request.prompt = "an <image> here";
  EXPECT_EQ(Plan(request).status().message(),
            "prompt has the token \"<image>\" (id 902), for which the model has no embedding");
  text::ChatInput chat;
  chat.messages.emplace_back().role = "user";
  chat.messages[0].content = "an <image> here";
  request.prompt = chat;
  EXPECT_EQ(Plan(request).status().message(),
            "chat has the token \"<image>\" (id 902), for which the model has no embedding");
  request.prompt = std::vector<engine::TokenId>{7, kTinyVocab};
  EXPECT_EQ(Plan(request).status().message(),
            "prompt[1] is the token \"<image>\" (id 902), for which the model has no embedding; limit is [0, 902)");
  request.prompt = std::vector<engine::TokenId>{kTinyVocab + 1};
  EXPECT_EQ(Plan(request).status().message(), "prompt[0] is 903; limit is [0, 902)");

  request.prompt = "nothing of the kind";
  request.stopping.stop_token_ids = {kTinyVocab, 5};
  request.sampling.logit_bias = {{kTinyVocab, 1.0F}, {3, 1.0F}};
  request.sampling.bad_words_ids = {{kTinyVocab}, {8, kTinyVocab}, {8}};
  request.sampling.bad_words = {"<image>"};
  const auto plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->request.stopping.stop_token_ids, ElementsAre(5));
  EXPECT_THAT(plan->request.sampling.logit_bias, ElementsAre(Pair(3, 1.0F)));
  EXPECT_THAT(plan->request.sampling.bad_words, ElementsAre(ElementsAre(8)));
  request.stopping.stop_token_ids = {kTinyVocab + 1};
  EXPECT_FALSE(Plan(request).ok()) << "no token at all";
}

TEST_F(UnembeddedTokensTest, AreRefusedInAnInput) {
  const engine::TokenId image = models_.model("unembedded_encoder").model->config().vocab_size;
  ClientEmbedRequest request;
  request.model = "unembedded_encoder";
  request.inputs = {"nothing of the kind", "an <image> here"};
  const std::string described =
      "the token \"<image>\" (id " + std::to_string(image) + "), for which the model has no embedding";
  EXPECT_EQ(Plan(request).status().message(), "inputs[1] has " + described);
  request.inputs = {std::vector<engine::TokenId>{1, 2}, std::vector<engine::TokenId>{3, image}};
  EXPECT_EQ(Plan(request).status().message(),
            "inputs[1][1] is " + described + "; limit is [0, " + std::to_string(image) + ")");
  request.inputs = {"nothing of the kind"};
  EXPECT_TRUE(Plan(request).ok()) << Plan(request).status();
}

}  // namespace
}  // namespace dunlin::server
