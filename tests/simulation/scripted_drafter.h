// SPDX-License-Identifier: Apache-2.0
// Guesses the tokens of an answer that is known, and often something else. Thread rule: one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "engine/speculation/drafter.h"

namespace dunlin::simulation {

class ScriptedDrafter final : public engine::Drafter {
 public:
  ScriptedDrafter(std::vector<engine::TokenId> answer, int32_t prompt_len, int32_t vocab_size, uint64_t seed)
      : answer_(std::move(answer)),
        prompt_len_(static_cast<size_t>(prompt_len)),
        vocab_size_(vocab_size),
        dice_(seed) {}

  void Draft(std::span<const engine::TokenId> tokens, int32_t max_drafts,
             std::vector<engine::TokenId>* drafts) override {
    if (dice_() % 8 == 0) return;
    const auto count = static_cast<size_t>(max_drafts);
    for (size_t i = 0; i < count; ++i) {
      const size_t place = tokens.size() - prompt_len_ + i;
      const bool right = place < answer_.size() && dice_() % 8 != 0;
      drafts->push_back(right ? answer_[place]
                              : static_cast<engine::TokenId>(dice_() % static_cast<uint64_t>(vocab_size_)));
    }
  }

 private:
  std::vector<engine::TokenId> answer_;
  size_t prompt_len_;
  int32_t vocab_size_;
  std::mt19937_64 dice_;
};

}  // namespace dunlin::simulation
