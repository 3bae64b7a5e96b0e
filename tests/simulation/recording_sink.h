// SPDX-License-Identifier: Apache-2.0
// A sink that records its calls and can be waited for. full_after: OnToken says "full" from that token on.
// Any thread; does not allocate after construction.
#pragma once

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::simulation {

class RecordingSink : public engine::OutputSink {
 public:
  explicit RecordingSink(size_t max_tokens, size_t max_scores = 0,
                         size_t full_after = std::numeric_limits<size_t>::max())
      : full_after_(full_after) {
    tokens.reserve(max_tokens);
    scores.reserve(max_scores);
  }

  bool OnToken(const engine::TokenOutput& token) override {
    if (tokens.size() >= full_after_) return false;
    if (num_finishes_.load() > 0) late = true;
    tokens.push_back(token.token_id);
    num_tokens_.store(tokens.size());
    return true;
  }
  void OnPromptToken(int32_t position, const engine::TokenOutput& token) override {
    if (position != static_cast<int32_t>(scores.size()) + 1 || !tokens.empty()) late = true;
    scores.push_back(token.logprob);
  }
  void OnStepEnd() override {
    if (num_finishes_.load() > 0) late = true;
    ended_tokens = tokens.size();
    ended_scores = scores.size();
  }
  void OnFinish(const engine::FinishInfo& finish) override {
    info = finish;
    num_finishes_.fetch_add(1);
  }

  int num_finishes() const { return num_finishes_.load(); }
  size_t num_tokens() const { return num_tokens_.load(); }
  // False when it does not happen within a generous time.
  bool WaitForFinish() const {
    return WaitUntil([this] { return num_finishes() > 0; });
  }
  bool WaitForTokens(size_t count) const {
    return WaitUntil([this, count] { return num_tokens() >= count; });
  }
  template <typename Condition>
  static bool WaitUntil(Condition condition) {
    for (int i = 0; i < 100000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return false;
  }

  // Read after WaitForFinish, or on the thread that drives the scheduler.
  std::vector<engine::TokenId> tokens;
  std::vector<float> scores;
  size_t ended_tokens = 0;  // of tokens, at the last OnStepEnd
  size_t ended_scores = 0;
  engine::FinishInfo info;
  bool late = false;  // something came out of order

 private:
  size_t full_after_;
  std::atomic<size_t> num_tokens_{0};
  std::atomic<int> num_finishes_{0};
};

}  // namespace dunlin::simulation
