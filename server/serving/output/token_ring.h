// SPDX-License-Identifier: Apache-2.0
// A bounded ring that passes the tokens of one output from the engine thread to the text pool. Allocates only at
// construction. Thread rule: one producer thread, one consumer at a time; Push and the consumer's calls may overlap.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::server {

class TokenRing {
 public:
  struct Token {
    engine::TokenId id = 0;
    float logprob = 0.0F;
    int32_t rank = 0;
    int32_t num_top = 0;
    engine::TimeNs time = 0;  // when the engine delivered it
  };

  // The memory that a ring needs.
  static size_t Bytes(size_t capacity, int32_t num_top) {
    return capacity * (sizeof(Token) + static_cast<size_t>(num_top) * sizeof(engine::TopLogprob));
  }
  // capacity: tokens, >= 0. num_top: top log-probabilities kept of each token, [0, kMaxTopLogprobs].
  TokenRing(size_t capacity, int32_t num_top);

  // False if the ring is full. Never allocates or blocks.
  [[nodiscard]] bool Push(const engine::TokenOutput& token, engine::TimeNs now);

  // Null if the ring is empty. Valid until PopFront.
  const Token* Front() const;
  // Of Front(), most likely first. REQUIRES: not empty.
  std::span<const engine::TopLogprob> FrontTop() const;
  // REQUIRES: not empty.
  void PopFront();

 private:
  size_t Slot(uint64_t count) const { return static_cast<size_t>(count % tokens_.size()); }

  const int32_t num_top_;
  std::vector<Token> tokens_;             // [capacity]
  std::vector<engine::TopLogprob> tops_;  // [capacity, num_top]
  std::atomic<uint64_t> pushed_{0};       // written by the producer
  std::atomic<uint64_t> popped_{0};       // written by the consumer
};

}  // namespace dunlin::server
