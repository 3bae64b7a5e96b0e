// SPDX-License-Identifier: Apache-2.0
// Guesses of an answer that is known, right or wrong as a test wants them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/speculation/drafter.h"
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {

inline std::vector<TokenId> TokensAlone(const Request& request) {
  return simulation::RunAlone(request, {kEos}, {.vocab_size = SchedulerHarness::kVocabSize}).tokens;
}

// Guesses of an answer; those in `wrong`, by place in the output, are wrong.
class KnownAnswer final : public Drafter {
 public:
  KnownAnswer(const Client& client, std::vector<size_t> wrong)
      : answer_(TokensAlone(client.request)), prompt_len_(client.request.prompt.size()), wrong_(std::move(wrong)) {}

  void Draft(std::span<const TokenId> tokens, int32_t max_drafts, std::vector<TokenId>* drafts) override {
    size_t place = tokens.size() - prompt_len_;
    for (int32_t i = 0; i < max_drafts && place < answer_.size(); ++i, ++place) {
      const bool is_wrong = all_wrong || std::find(wrong_.begin(), wrong_.end(), place) != wrong_.end();
      drafts->push_back((answer_[place] + (is_wrong ? 1 : 0)) % SchedulerHarness::kVocabSize);
    }
  }

  bool all_wrong = false;

 private:
  std::vector<TokenId> answer_;
  size_t prompt_len_;
  std::vector<size_t> wrong_;
};

// A client whose next tokens are guessed.
inline Client* AddGuessed(SchedulerHarness* harness, const Request& request, int32_t max_drafts,
                          KnownAnswer** drafter = nullptr, std::vector<size_t> wrong = {}) {
  harness->max_drafts = max_drafts;
  Client* client = harness->Add(request);
  auto known = std::make_unique<KnownAnswer>(*client, std::move(wrong));
  if (drafter != nullptr) *drafter = known.get();
  client->sequence->drafts.drafter = std::move(known);
  return client;
}

}  // namespace dunlin::engine
