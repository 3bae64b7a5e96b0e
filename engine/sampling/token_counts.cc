// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/token_counts.h"

#include <bit>

#include "engine/base/check.h"
#include "kernels/api/logits.h"

namespace dunlin::engine {

void TokenCounts::Start(std::span<const TokenId> prompt, int32_t max_tokens) {
  const size_t capacity = prompt.size() + static_cast<size_t>(max_tokens);
  list_.reserve(capacity);
  slots_.assign(std::bit_ceil(2 * capacity), 0);
  for (const TokenId token : prompt) At(token).count |= kernels::kInPrompt;
}

void TokenCounts::AddOutput(TokenId token) {
  if (!slots_.empty()) ++At(token).count;
}

TokenCount& TokenCounts::At(TokenId token) {
  constexpr uint32_t kGoldenRatio = 0x9E3779B9;  // Fibonacci hashing: neighbouring ids go to distant slots
  const size_t mask = slots_.size() - 1;
  size_t slot = (static_cast<uint32_t>(token) * kGoldenRatio >> 7) & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    TokenCount& found = list_[static_cast<size_t>(slots_[slot]) - 1];
    if (found.id == token) return found;
  }
  DUNLIN_CHECK(list_.size() < list_.capacity(), "more tokens than the sequence may have");
  list_.push_back({token, 0});
  slots_[slot] = static_cast<int32_t>(list_.size());
  return list_.back();
}

}  // namespace dunlin::engine
