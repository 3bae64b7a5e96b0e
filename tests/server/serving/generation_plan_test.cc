// SPDX-License-Identifier: Apache-2.0
// Planning a client's request: the model's defaults, a table of bounds for every field, and how max_tokens follows
// from the context.
#include "server/serving/generation/generation_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "server/serving/generation/output_length.h"
#include "server/serving/record/errors.h"
#include "server/serving/text/prompt_overflow.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::StartsWith;

constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
constexpr int32_t kMax = std::numeric_limits<int32_t>::max();

class GenerationPlanTest : public testing::Test {
 protected:
  GenerationPlanTest() : models_(engine::EngineOptions()), core_(limits_, models_.repository(), nullptr, {}) {}

  absl::StatusOr<GenerationPlan> Plan(const ClientRequest& request) { return PlanGeneration(request, core_, &record_); }

  static ClientRequest Ids(size_t count) {
    ClientRequest request;
    request.model = "tiny";
    request.prompt = std::vector<engine::TokenId>(count, 7);
    return request;
  }

  const Limits limits_{.default_max_tokens = 30};
  TestModels models_;
  ServingCore core_;
  RequestRecord record_;
};

TEST_F(GenerationPlanTest, UnsetFieldsTakeTheModelsDefaults) {
  const auto plan = Plan(Ids(3));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->request.sampling.temperature, 0.0F) << "of the test's model";
  EXPECT_EQ(plan->request.sampling.top_p, 1.0F);
  EXPECT_EQ(plan->request.sampling.logprobs, -1);
  EXPECT_EQ(plan->request.sampling.prompt_logprobs, -1);
  EXPECT_EQ(plan->request.stopping.max_tokens, 30);
  EXPECT_EQ(plan->num_outputs, 1);
  EXPECT_THAT(plan->request.prompt, ElementsAre(7, 7, 7));
  EXPECT_THAT(plan->output_text.stop_token_ids, ElementsAre(0)) << "end of sequence";
  EXPECT_NE(plan->request.sampling.seed, Plan(Ids(3))->request.sampling.seed) << "drawn";
  EXPECT_EQ(record_.model, "tiny");
  EXPECT_EQ(record_.prompt_tokens, 3);
  EXPECT_EQ(record_.max_tokens, 30);
  ASSERT_TRUE(record_.profile.has_value());
}

TEST_F(GenerationPlanTest, SetFieldsOverrideThem) {
  ClientRequest request = Ids(1);
  request.sampling.temperature = 0.5F;
  request.sampling.top_k = 40;
  request.sampling.seed = 0;
  request.sampling.logit_bias = {{9, 1.0F}, {3, -100.0F}};
  request.output.logprobs = 0;
  request.stopping.max_tokens = 10;
  request.stopping.ignore_eos = true;
  request.priority = -100;
  request.cache_salt = "salt";
  const auto plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->request.sampling.temperature, 0.5F);
  EXPECT_EQ(plan->request.sampling.top_k, 40);
  EXPECT_EQ(plan->request.sampling.seed, 0U);
  EXPECT_THAT(plan->request.sampling.logit_bias, ElementsAre(Pair(3, -100.0F), Pair(9, 1.0F)));
  EXPECT_EQ(plan->request.sampling.logprobs, 0);
  EXPECT_TRUE(plan->output_text.logprobs);
  EXPECT_EQ(plan->request.stopping.max_tokens, 10);
  EXPECT_TRUE(plan->output_text.stop_token_ids.empty());
  EXPECT_EQ(plan->request.priority, -100);
  EXPECT_EQ(plan->request.cache_salt, "salt");
}

TEST_F(GenerationPlanTest, RefusesALogitBiasThatWouldOverflow) {
  for (const float bias : {3e38F, -3e38F, 100.5F, INFINITY}) {
    ClientRequest request = Ids(1);
    request.sampling.logit_bias = {{9, bias}};
    EXPECT_EQ(Plan(request).status().code(), absl::StatusCode::kInvalidArgument) << bias;
  }
}

TEST_F(GenerationPlanTest, EveryFloatFieldRefusesUnusableNumbers) {
  constexpr std::optional<float> ClientSampling::*kFields[] = {&ClientSampling::temperature,
                                                               &ClientSampling::top_p,
                                                               &ClientSampling::min_p,
                                                               &ClientSampling::repetition_penalty,
                                                               &ClientSampling::presence_penalty,
                                                               &ClientSampling::frequency_penalty};
  const float bad[] = {std::nanf(""),
                       INFINITY,
                       -INFINITY,
                       std::numeric_limits<float>::denorm_min(),
                       -std::numeric_limits<float>::denorm_min(),
                       std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::lowest()};
  for (const auto field : kFields) {
    for (const float value : bad) {
      ClientRequest request = Ids(1);
      request.sampling.*field = value;
      EXPECT_EQ(ReasonName(Plan(request).status()), "INVALID_FIELD") << value;
    }
  }
}

TEST_F(GenerationPlanTest, EveryIntFieldRefusesValuesOutOfRange) {
  struct IntField {
    const char* name;
    void (*set)(ClientRequest*, int32_t);
    int64_t low, high;
  };
  const IntField fields[] = {
      {"top_k", [](ClientRequest* r, int32_t v) { r->sampling.top_k = v; }, 0, kMax},
      {"n", [](ClientRequest* r, int32_t v) { r->num_outputs = v; }, 1, 8},
      {"truncate_prompt_tokens", [](ClientRequest* r, int32_t v) { r->truncate_prompt_tokens = v; }, 1, kTinyContext},
      {"allowed_token_ids[0]", [](ClientRequest* r, int32_t v) { r->sampling.allowed_token_ids = {v}; }, 0,
       kTinyVocab - 1},
      {"max_tokens", [](ClientRequest* r, int32_t v) { r->stopping.max_tokens = v; }, 0, kTinyContext - 1},
      {"min_tokens", [](ClientRequest* r, int32_t v) { r->stopping.min_tokens = v; }, 0, 30},
      {"stop_token_ids[0]", [](ClientRequest* r, int32_t v) { r->stopping.stop_token_ids = {v}; }, 0, kTinyVocab - 1},
      {"logit_bias key",
       [](ClientRequest* r, int32_t v) {
         r->sampling.logit_bias = {{v, 1.0F}};
       },
       0, kTinyVocab - 1},
      {"prompt[0]", [](ClientRequest* r, int32_t v) { r->prompt = std::vector<engine::TokenId>{v}; }, 0,
       kTinyVocab - 1},
      {"logprobs", [](ClientRequest* r, int32_t v) { r->output.logprobs = v; }, 0, 20},
      {"prompt_logprobs", [](ClientRequest* r, int32_t v) { r->output.prompt_logprobs = v; }, 0, 20},
      {"priority", [](ClientRequest* r, int32_t v) { r->priority = v; }, -100, 100},
  };
  for (const IntField& field : fields) {
    const int64_t values[] = {kMin, -1, 0, 1, field.low - 1, field.low, field.high, field.high + 1, kMax};
    for (const int64_t value : values) {
      if (value < kMin || value > kMax) continue;
      ClientRequest request = Ids(1);
      field.set(&request, static_cast<int32_t>(value));
      const absl::Status status = Plan(request).status();
      const bool inside = value >= field.low && value <= field.high;
      EXPECT_EQ(status.ok(), inside) << field.name << " = " << value << ": " << status;
      if (!inside) {
        EXPECT_THAT(std::string(status.message()), StartsWith(field.name)) << value;
      }
    }
  }
}

TEST_F(GenerationPlanTest, MaxTokensAreClampedWhereTheClientSaysSo) {
  ClientRequest request = Ids(12);
  request.stopping.max_tokens = kMax;
  request.stopping.clamp_max_tokens = true;
  auto plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->request.stopping.max_tokens, kTinyContext - 12);
  EXPECT_EQ(plan->clamped_max_tokens, kTinyContext - 12);
  EXPECT_EQ(plan->reserved_tokens, kTinyContext - 12);
  EXPECT_EQ(record_.max_tokens, kTinyContext - 12);
  request.stopping.max_tokens = kTinyContext - 12;
  plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->clamped_max_tokens, std::nullopt) << "as much as there is";
  request.stopping.max_tokens = -1;
  EXPECT_EQ(Plan(request).status().message(), "max_tokens is -1; limit is [0, 2147483647]");
}

TEST_F(GenerationPlanTest, WithoutMaxTokensTheContextIsTheLimitAndAQuotaReservesLess) {
  const ServingCore core({}, models_.repository(), nullptr, {});
  const auto plan = PlanGeneration(Ids(12), core, &record_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->request.stopping.max_tokens, kTinyContext - 12);
  EXPECT_EQ(plan->clamped_max_tokens, std::nullopt);
  EXPECT_EQ(plan->reserved_tokens, std::min(kTinyContext - 12, kReservedOutputTokens));
}

TEST_F(GenerationPlanTest, NoTokensAreOneThatIsDropped) {
  ClientRequest request = Ids(3);
  request.stopping.max_tokens = 0;
  const auto plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->no_output);
  EXPECT_EQ(plan->request.stopping.max_tokens, 1);
  request.stopping.min_tokens = 1;
  EXPECT_EQ(Plan(request).status().message(), "min_tokens is 1; limit is [0, 0]");
}

TEST_F(GenerationPlanTest, APromptThatIsTooLongCarriesItsCounts) {
  const absl::Status status = Plan(Ids(kTinyContext)).status();
  EXPECT_EQ(ReasonName(status), "INVALID_FIELD");
  const std::optional<PromptOverflow> overflow = OverflowOf(status);
  ASSERT_TRUE(overflow.has_value()) << status;
  EXPECT_EQ(overflow->context_tokens, kTinyContext);
  EXPECT_EQ(overflow->max_prompt_tokens, kTinyContext - 1);
  EXPECT_EQ(overflow->prompt_tokens, kTinyContext);
  EXPECT_FALSE(overflow->at_least);
  ClientRequest text = Ids(0);
  text.prompt = std::string(100'000, 'a');
  const std::optional<PromptOverflow> uncounted = OverflowOf(Plan(text).status());
  ASSERT_TRUE(uncounted.has_value());
  EXPECT_TRUE(uncounted->at_least);
  EXPECT_EQ(uncounted->prompt_tokens, 2 * (kTinyContext - 1) + 1);
  EXPECT_EQ(OverflowOf(Plan(Ids(0)).status()), std::nullopt) << "an empty prompt is no long one";
}

TEST_F(GenerationPlanTest, TheModelsBansJoinTheRequestsAndCanBeDropped) {
  models_.AddBanning();
  ClientRequest request = Ids(1);
  request.model = "banning";
  request.sampling.bad_words_ids = {{8, 9}, {0}};
  auto plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->request.sampling.temperature, 0.5F);
  EXPECT_THAT(plan->request.sampling.suppressed_token_ids, ElementsAre(3, 4));
  EXPECT_THAT(plan->request.sampling.begin_suppressed_token_ids, ElementsAre(5));
  EXPECT_THAT(plan->request.sampling.bad_words, ElementsAre(ElementsAre(8, 9), ElementsAre(6, 7)))
      << "a word that is the end of sequence bans nothing";
  EXPECT_EQ(plan->request.stopping.max_tokens, 12) << "less than limits.default_max_tokens";

  request.sampling.ignore_model_bans = true;
  request.stopping.max_tokens = 20;
  plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->request.sampling.suppressed_token_ids.empty());
  EXPECT_TRUE(plan->request.sampling.begin_suppressed_token_ids.empty());
  EXPECT_THAT(plan->request.sampling.bad_words, ElementsAre(ElementsAre(8, 9)));
  EXPECT_EQ(plan->request.stopping.max_tokens, 20);
}

TEST_F(GenerationPlanTest, AllowedTokensAndBadWordsHaveBounds) {
  struct Case {
    void (*set)(ClientSampling*);
    const char* message;  // "": accepted
  };
  using S = ClientSampling;
  const Case cases[] = {
      {[](S* s) { s->allowed_token_ids.assign(1024, 5); }, ""},
      {[](S* s) { s->allowed_token_ids.assign(1025, 5); }, "allowed_token_ids has 1025 entries; limit is 1024"},
      {[](S* s) {
         s->allowed_token_ids = {5, -1};
       },
       "allowed_token_ids[1] is -1; limit is [0, 902)"},
      {[](S* s) {
         s->bad_words_ids.assign(256, {1, 2});
       },
       ""},
      {[](S* s) {
         s->bad_words_ids.assign(257, {1, 2});
       },
       "bad_words_ids has 257 entries; limit is 256"},
      {[](S* s) {
         s->bad_words_ids = {{1}, {}};
       },
       "bad_words_ids[1] has 0 tokens; limit is 1 to 64"},
      {[](S* s) { s->bad_words_ids = {std::vector<engine::TokenId>(65, 1)}; },
       "bad_words_ids[0] has 65 tokens; limit is 1 to 64"},
      {[](S* s) {
         s->bad_words_ids = {{1}, {2, 902}};
       },
       "bad_words_ids[1][1] is 902; limit is [0, 902)"},
      {[](S* s) { s->bad_words.assign(64, "bad"); }, ""},
      {[](S* s) { s->bad_words.assign(65, "bad"); }, "bad_words has 65 entries; limit is 64"},
      {[](S* s) {
         s->bad_words = {"bad", ""};
       },
       "bad_words[1] has 0 bytes; limit is 1 to 256"},
      {[](S* s) { s->bad_words = {std::string(257, 'x')}; }, "bad_words[0] has 257 bytes; limit is 1 to 256"},
      {[](S* s) { s->bad_words = {" \n"}; },
       "bad_words[0] has 0 tokens; limit is 1 to 64 tokens after leading whitespace"},
      {[](S* s) {
         s->bad_words_ids.assign(255, {1, 2});
         s->bad_words = {"a", "b"};
       },
       "bad_words_ids has 259 entries; limit is 256"},
      {[](S* s) {
         s->allowed_token_ids = {5, 6};
         s->bad_words_ids = {{5}, {6}};
       },
       "allowed_token_ids has only tokens that bad_words_ids or the model's suppress_tokens ban; limit is one that may "
       "be drawn"},
      {[](S* s) {
         s->allowed_token_ids = {5, 6};
         s->bad_words_ids = {{5}, {6, 6}};
       },
       ""},
  };
  for (const Case& c : cases) {
    ClientRequest request = Ids(1);
    c.set(&request.sampling);
    const absl::Status status = Plan(request).status();
    EXPECT_EQ(std::string(status.message()), c.message);
    EXPECT_EQ(status.ok(), *c.message == '\0') << status;
  }
}

TEST_F(GenerationPlanTest, BadWordsAndEchoNeedATokenizer) {
  ClientRequest request = Ids(1);
  request.model = "bare";
  request.sampling.bad_words = {"bad"};
  EXPECT_EQ(ReasonName(Plan(request).status()), "NO_TOKENIZER");
  request.sampling.bad_words.clear();
  request.output.echo = true;
  EXPECT_EQ(ReasonName(Plan(request).status()), "NO_TOKENIZER");
}

// The rule of vLLM's SamplingParams.update_from_tokenizer, written plainly.
TEST_F(GenerationPlanTest, BadWordsAreTokenisedWithAndWithoutASpace) {
  const text::Tokenizer& tokenizer = *models_.model("tiny").tokenizer;
  const auto encode = [&tokenizer](const std::string& text) {
    return *tokenizer.Encode(text, {.add_special_tokens = false});
  };
  int pairs = 0;
  for (const char* text : {"the", " the", "dunlin", "a", "Hello, world!", "naïve", "<|endoftext|>", "\n\tin"}) {
    ClientRequest request = Ids(1);
    request.sampling.bad_words = {text};
    const auto plan = Plan(request);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const std::string word = std::string(text).substr(std::string(text).find_first_not_of(" \n\t"));
    std::vector<std::vector<engine::TokenId>> expected = {encode(word)};
    const std::vector<engine::TokenId> spaced = encode(" " + word);
    if (spaced[0] != expected[0][0] && spaced.size() == expected[0].size()) expected.push_back(spaced);
    EXPECT_EQ(plan->request.sampling.bad_words, expected) << text;
    pairs += expected.size() == 2 ? 1 : 0;
  }
  EXPECT_GE(pairs, 2);
}

TEST_F(GenerationPlanTest, MaxTokensFollowFromTheContext) {
  struct Case {
    size_t prompt;
    int32_t named, expected;  // named 0: none; expected 0: refused
  };
  for (const Case& c : {Case{3, 0, 30},
                        {kTinyContext - 24, 0, 24},
                        {kTinyContext - 1, 0, 1},
                        {kTinyContext, 0, 0},
                        {0, 0, 0},
                        {3, kTinyContext - 3, kTinyContext - 3},
                        {3, kTinyContext - 2, 0},
                        {kTinyContext - 4, 4, 4}}) {
    ClientRequest request = Ids(c.prompt);
    if (c.named != 0) request.stopping.max_tokens = c.named;
    const auto plan = Plan(request);
    EXPECT_EQ(plan.ok(), c.expected != 0) << c.prompt << ", " << c.named << ": " << plan.status();
    if (plan.ok()) {
      EXPECT_EQ(plan->request.stopping.max_tokens, c.expected);
    } else {
      EXPECT_TRUE(absl::IsInvalidArgument(plan.status()));
    }
  }
}

}  // namespace
}  // namespace dunlin::server
