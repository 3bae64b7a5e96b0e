// SPDX-License-Identifier: Apache-2.0
// Structured output of a request: its bounds and refusals, and the cache of compiled grammars.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/serving/generation/check_structured_output.h"
#include "server/serving/generation/generation_plan.h"
#include "server/serving/generation/pending_constraint.h"
#include "server/serving/record/errors.h"
#include "tests/server/serving/fake_front.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;
using text::GrammarKind;
using text::GrammarSource;

class StructuredOutputTest : public testing::Test {
 protected:
  StructuredOutputTest() : models_(engine::EngineOptions()), core_(Limits(), models_.repository(), nullptr, {}) {}

  absl::StatusOr<GenerationPlan> Plan(GrammarSource source, const std::string& model = "tiny") {
    ClientRequest request;
    request.model = model;
    request.prompt = std::vector<engine::TokenId>{7};
    request.structured_output = std::move(source);
    RequestRecord record;
    absl::StatusOr<GenerationPlan> plan = PlanGeneration(request, core_, &record);
    if (!plan.ok() || !plan->grammar.has_value()) return plan;
    auto compiled = std::make_shared<absl::Notification>();
    const auto pending = PendingConstraint::Start(*plan->model, *plan->grammar, *plan->field_names,
                                                  {.on_done = [compiled] { compiled->Notify(); }}, 0);
    if (!pending.ok()) return pending.status();
    if (!(*pending)->result().has_value()) compiled->WaitForNotification();
    absl::StatusOr<Grammar> grammar = *(*pending)->result();
    if (!grammar.ok()) return grammar.status();
    plan->request.constraint = grammar->constraint;
    return plan;
  }

  TestModels models_;
  ServingCore core_;
};

TEST_F(StructuredOutputTest, PlanHasTheConstraintOfTheRequest) {
  const auto plan = Plan({GrammarKind::kChoice, "", {"yes", "no"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_NE(plan->request.constraint, nullptr);
  EXPECT_FALSE(plan->request.constraint->Start()->is_accepting());
  EXPECT_EQ(Plan({GrammarKind::kChoice, "", {"yes", "no"}})->request.constraint, plan->request.constraint) << "cached";
}

TEST_F(StructuredOutputTest, BoundsNameFieldAndLimit) {
  const std::string big(text::kMaxGrammarBytes + 1, ' ');
  const std::vector<std::string> many(text::kMaxChoices + 1, "a");
  const std::vector<std::string> long_ones(2, std::string(text::kMaxChoiceBytes, 'a'));
  const std::vector<std::tuple<GrammarSource, std::string, std::string>> cases = {
      {{GrammarKind::kJsonSchema, big, {}}, "json_schema", "262144"},
      {{GrammarKind::kJsonSchema, "", {}}, "json_schema", "262144"},
      {{GrammarKind::kGrammar, big, {}}, "grammar", "262144"},
      {{GrammarKind::kRegex, std::string(text::kMaxRegexBytes + 1, 'a'), {}}, "regex", "16384"},
      {{GrammarKind::kRegex, "\xff", {}}, "regex", ""},
      {{GrammarKind::kChoice, "", {}}, "choice", ""},
      {{GrammarKind::kChoice, "", many}, "choice", "1024"},
      {{GrammarKind::kChoice, "", {"a", ""}}, "choice[1]", "65536"},
      {{GrammarKind::kChoice, "", long_ones}, "choice", "65536"},
  };
  for (const auto& [source, field, limit] : cases) {
    const absl::Status status = Plan(source).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(DetailsOf(status).reason, "INVALID_FIELD") << field;
    EXPECT_EQ(DetailsOf(status).field, field);
    EXPECT_THAT(DetailsOf(status).limit, HasSubstr(limit)) << field;
  }
}

TEST_F(StructuredOutputTest, RefusalsSayWhy) {
  const std::vector<std::tuple<GrammarSource, std::string, std::string>> cases = {
      {{GrammarKind::kJsonSchema, "{", {}}, "GRAMMAR_INVALID", "json_schema is not JSON"},
      {{GrammarKind::kJsonSchema, R"({"not": {}})", {}}, "GRAMMAR_UNSUPPORTED", "json_schema has \"not\" at #"},
      {{GrammarKind::kJsonSchema, R"({"maxLength": 99999})", {}}, "GRAMMAR_TOO_COMPLEX", "limit is 65536"},
      {{GrammarKind::kRegex, "a$", {}}, "GRAMMAR_UNSUPPORTED", "regex has an anchor"},
      {{GrammarKind::kGrammar, "a ::= \"b\"", {}}, "GRAMMAR_INVALID", "grammar has no rule \"root\""},
  };
  for (const auto& [source, reason, message] : cases) {
    const absl::Status status = Plan(source).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(DetailsOf(status).reason, reason);
    EXPECT_FALSE(DetailsOf(status).field.empty());
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_TRUE(QuotesClient(status)) << "not for logs";
  }
  const absl::Status bare = Plan({GrammarKind::kJsonObject, "", {}}, "bare").status();
  EXPECT_EQ(bare.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailsOf(bare).reason, "NO_TOKENIZER");
  EXPECT_FALSE(QuotesClient(bare));
}

TEST_F(StructuredOutputTest, EqualGrammarsCompileOnce) {
  GrammarCache& cache = *models_.model("tiny").grammars;
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<const engine::TokenConstraint>> constraints(8);
  threads.reserve(constraints.size());
  for (auto& constraint : constraints) {
    threads.emplace_back([&] { constraint = cache.Get({GrammarKind::kJsonObject, "", {}})->constraint; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& constraint : constraints) EXPECT_EQ(constraint, constraints.front());
  EXPECT_EQ(cache.stats().compiled, 1);
  EXPECT_EQ(cache.stats().hits, 7);
  EXPECT_FALSE(cache.Get({GrammarKind::kRegex, "(", {}}).ok());
  EXPECT_FALSE(cache.Get({GrammarKind::kRegex, "(", {}}).ok());
  EXPECT_EQ(cache.stats().compiled, 3) << "a refusal is not kept";
  EXPECT_EQ(cache.stats().entries, 1U);
}

TEST_F(StructuredOutputTest, LeastRecentlyUsedGrammarsLeaveFirst) {
  GrammarCache& cache = *models_.model("tiny").grammars;
  const auto number = [&](size_t i) {
    return cache.Get({GrammarKind::kChoice, "", {absl::StrCat("choice ", i)}})->constraint;
  };
  const auto first = number(0);
  for (size_t i = 1; i < GrammarCache::kMaxEntries; ++i) ASSERT_NE(number(i), nullptr);
  EXPECT_EQ(number(0), first) << "used last";
  ASSERT_NE(number(GrammarCache::kMaxEntries), nullptr);
  EXPECT_EQ(number(0), first);
  const int64_t compiled = cache.stats().compiled;
  ASSERT_NE(number(1), nullptr);
  EXPECT_EQ(cache.stats().compiled, compiled + 1) << "it had left";
  EXPECT_EQ(cache.stats().entries, GrammarCache::kMaxEntries);
  EXPECT_LE(cache.stats().bytes, TextWorkLimits().grammar_cache_bytes);
}

TEST_F(StructuredOutputTest, ChoicesWithEqualConcatenationsDiffer) {
  GrammarCache& cache = *models_.model("tiny").grammars;
  EXPECT_NE(cache.Get({GrammarKind::kChoice, "", {"ab", "c"}})->constraint,
            cache.Get({GrammarKind::kChoice, "", {"a", "bc"}})->constraint);
}

TEST_F(StructuredOutputTest, ComposedGrammarsWithOtherPartsDiffer) {
  GrammarCache& cache = *models_.model("tiny").grammars;
  const auto composed = [](std::vector<text::GrammarSource> parts) {
    text::GrammarSource source = {GrammarKind::kComposed, "start: @part_0\n", {}};
    source.parts = std::move(parts);
    return source;
  };
  const text::GrammarSource a = {GrammarKind::kChoice, "", {"a"}};
  const text::GrammarSource b = {GrammarKind::kChoice, "", {"b"}};
  const text::GrammarSource regex = {GrammarKind::kRegex, "a", {}};
  const auto get = [&](const text::GrammarSource& source) { return cache.Get(source)->constraint; };
  const auto first = get(composed({a}));
  EXPECT_EQ(get(composed({a})), first);
  EXPECT_NE(get(composed({b})), first);
  EXPECT_NE(get(composed({regex})), first);
  EXPECT_NE(get(composed({a, b})), first);
  EXPECT_EQ(cache.stats().compiled, 4);
}

// Takes most of a second to compile.
GrammarSource SlowGrammar(int number) {
  return {GrammarKind::kGrammar,
          absl::StrCat("start: T\nT: /(.{11})*a/ & /(.{13})*a/ & /(.{17})*a/ & /(.{19})*a/\n// ", number, "\n"),
          {}};
}

TEST_F(StructuredOutputTest, AGrammarThatIsCompiledHoldsNoTextThread) {
  core_.Open();
  std::vector<std::shared_ptr<FakeGenerateCall>> slow;
  for (int i = 0; i < 4; ++i) {
    ClientRequest request = ClientTextRequest("a", 1);
    request.structured_output = SlowGrammar(i);
    slow.push_back(std::make_shared<FakeGenerateCall>(request));
    FakeGenerateCall::Start(&core_, slow.back());
  }
  const auto plain = std::make_shared<FakeGenerateCall>(ClientTextRequest("a", 1));
  FakeGenerateCall::Start(&core_, plain);
  EXPECT_TRUE(plain->WaitUntilFinished().status.ok());
  EXPECT_LE(models_.model("tiny").grammars->stats().entries, 1U) << "two text threads, and four grammars before it";
  for (size_t i = 1; i < slow.size(); ++i) slow[i]->Cancel();
  for (size_t i = 1; i < slow.size(); ++i) {
    EXPECT_EQ(slow[i]->WaitUntilFinished().status.code(), absl::StatusCode::kCancelled);
  }
  slow[0]->WaitUntilFinished();
  EXPECT_TRUE(core_.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
}

TEST_F(StructuredOutputTest, GrammarsThatWaitAreBoundedForEachTenant) {
  GrammarCache& cache = *models_.model("tiny").grammars;
  std::vector<std::unique_ptr<GrammarCache::Wait>> waits;
  const auto find = [&](engine::TenantId tenant) {
    GrammarCache::Caller caller;
    caller.tenant = tenant;
    return cache.Find(SlowGrammar(static_cast<int>(waits.size())), caller);
  };
  do {
    waits.push_back(find(7));
  } while (waits.back() != nullptr && waits.size() < 2 * GrammarLane::kMaxJobsPerTenant);
  EXPECT_EQ(waits.back(), nullptr);
  EXPECT_GT(waits.size(), GrammarLane::kMaxJobsPerTenant);
  const std::unique_ptr<GrammarCache::Wait> other = find(8);
  EXPECT_NE(other, nullptr) << "another tenant's";
}

}  // namespace
}  // namespace dunlin::server
