// SPDX-License-Identifier: Apache-2.0
// What a draft model is asked to guess, and that its guesses change nothing.
#include <functional>

#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

std::vector<TokenId> AnswerTo(const Request& request) {
  return simulation::RunAlone(request, {kEos}, {.vocab_size = SchedulerHarness::kVocabSize}).tokens;
}

// Guesses of the sequence's own drafter: the answer, or never right.
class LookUp final : public Drafter {
 public:
  explicit LookUp(std::vector<TokenId> answer, size_t prompt_len, bool right)
      : answer_(std::move(answer)), prompt_len_(prompt_len), right_(right) {}
  void Draft(std::span<const TokenId> tokens, int32_t max_drafts, std::vector<TokenId>* drafts) override {
    for (size_t i = tokens.size() - prompt_len_; i < answer_.size() && max_drafts-- > 0; ++i) {
      drafts->push_back(right_ ? answer_[i] : (answer_[i] + 1) % SchedulerHarness::kVocabSize);
    }
  }

 private:
  std::vector<TokenId> answer_;
  size_t prompt_len_;
  bool right_;
};

class NoLookUp final : public Drafter {
 public:
  void Draft(std::span<const TokenId>, int32_t, std::vector<TokenId>*) override {}
};

// A scheduler with a draft model, whose guesses the test makes.
class ModelDraftsHarness {
 public:
  explicit ModelDraftsHarness(const SchedulerOptions& options, int32_t depth = 1) : harness(options, depth) {}

  Client* Add(const Request& request, std::unique_ptr<Drafter> drafter = nullptr) {
    harness.max_drafts = 6;
    Client* client = harness.Add(request);
    if (drafter == nullptr) drafter = std::make_unique<NoLookUp>();
    client->sequence->drafts.drafter = std::move(drafter);
    clients_.push_back({client, AnswerTo(request)});
    return client;
  }

  // As a draft model that has caught up with all sequences.
  void Guess() {
    for (const DraftDemand& demand : harness.scheduler.WantedDrafts()) {
      ++num_demands;
      EXPECT_TRUE(demand.guesses->empty());
      EXPECT_GT(demand.max_drafts, 0);
      const auto& [client, answer] = clients_[demand.sequence_id - 1];
      const size_t place = demand.tokens.size() - client->request.prompt.size();
      for (size_t i = place; i < std::min(answer.size(), place + static_cast<size_t>(demand.max_drafts)); ++i) {
        demand.guesses->push_back((answer[i] + (wrong(i) ? 1 : 0)) % SchedulerHarness::kVocabSize);
      }
    }
  }

  bool Step() {
    Guess();
    return harness.Step();
  }

  // On a machine where a step takes `fixed` and each row `row`, and a pass of the draft model `pass`.
  void StepOn(TimeNs fixed, TimeNs row, TimeNs pass) {
    const int before = num_demands;
    Guess();
    if (num_demands > before) harness.scheduler.LearnDrafting({.rounds = 6, .rows = 6}, 6 * pass);
    harness.Launch();
    harness.now += fixed + row * harness.plan.num_tokens;
    harness.Collect();
  }

  std::function<bool(size_t place)> wrong = [](size_t) { return false; };
  int num_demands = 0;
  SchedulerHarness harness;

 private:
  std::vector<std::pair<Client*, std::vector<TokenId>>> clients_;  // by id - 1
};

SchedulerOptions ModelDraftOptions(bool adapt = false) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.cache.num_pages = 64;
  options.adapt_drafts = adapt;
  options.max_batch_drafts = 2;
  return options;
}

TEST(ModelDrafts, AreVerifiedAsOthers) {
  ModelDraftsHarness test(ModelDraftOptions());
  test.wrong = [](size_t place) { return place % 5 == 4; };
  Client* client = test.Add(Ask(Prompt(5), 30));
  ASSERT_TRUE(test.Step());
  ASSERT_TRUE(test.Step());
  EXPECT_EQ(test.harness.Planned(client), 7);
  EXPECT_EQ(client->sink->tokens.size(), 5U);  // three of six, and the draw in place of the fourth
  while (test.Step()) {
  }
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_GT(client->info().accepted_tokens, 15);
}

// A layer of the model itself computes in the sequence's pages: they are there before it is asked.
TEST(ModelDrafts, ThatAreWrittenToPagesHaveThem) {
  SchedulerOptions options = ModelDraftOptions();
  options.drafts_write_pages = true;
  options.max_batch_drafts = 4;
  options.cache.num_pages = 13;
  ModelDraftsHarness test(options);
  std::vector<Client*> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(test.Add(Ask(Prompt(4, 5 + i), 13)));
  int32_t short_of_pages = 0;
  while (true) {
    for (const DraftDemand& demand : test.harness.scheduler.WantedDrafts()) {
      const auto end = static_cast<int32_t>(demand.tokens.size()) - 1 + demand.max_drafts;
      EXPECT_LE(end, 4 * static_cast<int32_t>(demand.pages.size()));
      if (demand.max_drafts < 6) ++short_of_pages;
    }
    if (!test.Step()) break;
  }
  EXPECT_GT(short_of_pages, 0);
  EXPECT_EQ(test.harness.scheduler.counters().preemptions, 0U);
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(ModelDrafts, RestWhileMoreSequencesDecode) {
  ModelDraftsHarness test(ModelDraftOptions());
  test.Add(Ask(Prompt(3), 30));
  test.Add(Ask(Prompt(3, 7), 30));
  Client* third = test.Add(Ask(Prompt(3, 9), 8));
  while (!third->ended()) {
    ASSERT_TRUE(test.Step());
    if (third->sink->tokens.size() > 1 && !third->ended()) {
      EXPECT_TRUE(test.harness.scheduler.WantedDrafts().empty());
    }
  }
  const int before = test.num_demands;
  while (test.Step()) {
  }
  EXPECT_GT(test.num_demands, before);
}

TEST(ModelDrafts, AreNotAskedForWhereALookUpIsRight) {
  const Request request = Ask(Prompt(5), 60);
  for (const bool right : {false, true}) {
    SchedulerOptions options = ModelDraftOptions();
    ModelDraftsHarness test(options);
    Client* client = test.Add(request, std::make_unique<LookUp>(AnswerTo(request), request.prompt.size(), right));
    while (test.Step()) {
    }
    SchedulerHarness::ExpectAnswerAsAlone(*client);
    EXPECT_EQ(test.num_demands == 0, right);
    EXPECT_GT(client->info().accepted_tokens, 30);
  }
}

TEST(ModelDrafts, SurvivePreemptionAndTwoStepsInFlight) {
  for (const int32_t depth : {1, 2}) {
    SchedulerOptions options = ModelDraftOptions();
    options.cache.num_pages = 12;
    options.max_batch_drafts = 4;
    ModelDraftsHarness test(options, depth);
    test.wrong = [](size_t place) { return place % 7 == 3; };
    std::vector<Client*> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(test.Add(Ask(Prompt(6, 5 + i), 25)));
    while (test.Step()) {
    }
    EXPECT_GT(test.harness.scheduler.counters().preemptions, 0U);
    EXPECT_GT(test.harness.scheduler.counters().accepted_tokens, 0U);
    for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
}

// Passes of the model count: slow ones pay only where all guesses are right, slower ones never.
TEST(ModelDrafts, EndWhereThePassesTakeTheTimeOfTheStep) {
  for (const auto& [pass, most, least] : {std::tuple(2000, 6, 6), std::tuple(70000, 6, 1), std::tuple(150000, 0, 0)}) {
    SchedulerOptions options = ModelDraftOptions(true);
    options.cache.num_pages = 512;
    options.max_tokens_per_step = 64;
    ModelDraftsHarness test(options);
    Client* client = test.Add(Ask(Prompt(3), 900));
    int32_t most_rows = 0;
    int32_t least_rows = 7;
    for (int i = 0; i < 90; ++i) {
      test.StepOn(100000, 1000, pass);
      if (i < 60) continue;
      most_rows = std::max(most_rows, test.harness.Planned(client) - 1);
      least_rows = std::min(least_rows, test.harness.Planned(client) - 1);
    }
    EXPECT_LE(most_rows, most) << pass;
    EXPECT_GE(least_rows, least) << pass;
  }
}

// A text that the model does not know costs a few tries, each later than the one before.
TEST(ModelDrafts, RestLongerEachTimeThatTheyAreWrong) {
  SchedulerOptions options = ModelDraftOptions(true);
  options.cache.num_pages = 512;
  options.max_tokens_per_step = 64;
  ModelDraftsHarness test(options);
  test.wrong = [](size_t) { return true; };
  Client* client = test.Add(Ask(Prompt(3), 900));
  while (!client->ended()) test.StepOn(100000, 1000, 10000);
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_GT(test.num_demands, 5);
  EXPECT_LT(test.num_demands, 150);
}

// Its prompt would have to be computed first.
TEST(ModelDrafts, AreNotAskedForAFewTokensAfterALongPrompt) {
  for (const int32_t max_tokens : {4, 40}) {
    SchedulerOptions options = ModelDraftOptions();
    options.cache.num_pages = 512;
    options.max_tokens_per_step = 300;
    ModelDraftsHarness test(options);
    test.Add(Ask(Prompt(250), max_tokens));
    while (test.Step()) {
    }
    EXPECT_EQ(test.num_demands > 0, max_tokens == 40);
  }
}

}  // namespace
}  // namespace dunlin::engine
