// SPDX-License-Identifier: Apache-2.0
#include "server/serving/output/token_ring.h"

#include <algorithm>

namespace dunlin::server {

TokenRing::TokenRing(size_t capacity, int32_t num_top)
    : num_top_(num_top), tokens_(capacity), tops_(capacity * static_cast<size_t>(num_top)) {}

bool TokenRing::Push(const engine::TokenOutput& token, engine::TimeNs now) {
  const uint64_t pushed = pushed_.load(std::memory_order_relaxed);
  if (pushed - popped_.load(std::memory_order_acquire) >= tokens_.size()) return false;
  const size_t slot = Slot(pushed);
  const int32_t num_top = std::min(token.num_top, num_top_);
  tokens_[slot] = {token.token_id, token.logprob, token.rank, num_top, now};
  std::copy_n(token.top.begin(), num_top, tops_.begin() + static_cast<std::ptrdiff_t>(slot) * num_top_);
  pushed_.store(pushed + 1, std::memory_order_release);
  return true;
}

const TokenRing::Token* TokenRing::Front() const {
  const uint64_t popped = popped_.load(std::memory_order_relaxed);
  if (pushed_.load(std::memory_order_acquire) == popped) return nullptr;
  return &tokens_[Slot(popped)];
}

std::span<const engine::TopLogprob> TokenRing::FrontTop() const {
  const size_t slot = Slot(popped_.load(std::memory_order_relaxed));
  return {tops_.data() + slot * static_cast<size_t>(num_top_), static_cast<size_t>(tokens_[slot].num_top)};
}

void TokenRing::PopFront() {
  popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace dunlin::server
