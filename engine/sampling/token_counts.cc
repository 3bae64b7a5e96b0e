// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/token_counts.h"

#include <algorithm>
#include <bit>

#include "kernels/api/logits.h"

namespace dunlin::engine {
namespace {

// Tokens of output that find room without growth. All that a request may have, by default the rest of the context, is
// mostly far more than it generates.
constexpr int32_t kRoomAtStart = 1024;

}  // namespace

void TokenCounts::Start(std::span<const TokenId> prompt, int32_t max_tokens) {
  const size_t capacity = prompt.size() + static_cast<size_t>(std::min(max_tokens, kRoomAtStart));
  list_.reserve(capacity);
  slots_.assign(std::bit_ceil(2 * capacity), 0);
  for (const TokenId token : prompt) {
    if (!IsRowToken(token)) At(token).count |= kernels::kInPrompt;
  }
}

void TokenCounts::AddOutput(TokenId token) {
  if (started()) ++At(token).count;
}

size_t TokenCounts::SlotOf(TokenId token) const {
  constexpr uint32_t kGoldenRatio = 0x9E3779B9;  // Fibonacci hashing: neighbouring ids go to distant slots
  const size_t mask = slots_.size() - 1;
  size_t slot = (static_cast<uint32_t>(token) * kGoldenRatio >> 7) & mask;
  while (slots_[slot] != 0 && list_[static_cast<size_t>(slots_[slot]) - 1].id != token) slot = (slot + 1) & mask;
  return slot;
}

TokenCount& TokenCounts::At(TokenId token) {
  size_t slot = SlotOf(token);
  if (slots_[slot] != 0) return list_[static_cast<size_t>(slots_[slot]) - 1];
  if (2 * (list_.size() + 1) > slots_.size()) {
    Grow();
    slot = SlotOf(token);
  }
  list_.push_back({token, 0});
  slots_[slot] = static_cast<int32_t>(list_.size());
  return list_.back();
}

void TokenCounts::Grow() {
  slots_.assign(2 * slots_.size(), 0);
  list_.reserve(slots_.size() / 2);
  for (size_t i = 0; i < list_.size(); ++i) slots_[SlotOf(list_[i].id)] = static_cast<int32_t>(i) + 1;
}

}  // namespace dunlin::engine
