// SPDX-License-Identifier: Apache-2.0
#include "engine/speculation/ngram_drafter.h"

#include <algorithm>
#include <bit>

namespace dunlin::engine {
namespace {

// Tokens of output that the tables are made for; n-grams of a longer one take the places of earlier ones.
constexpr int32_t kRoomForOutput = 4096;
// Slots in a row that are looked at; the tables are half full at most, so that few n-grams find all of them taken.
constexpr size_t kProbes = 4;

bool SameNgram(std::span<const TokenId> tokens, size_t a, size_t b, size_t length) {
  const std::span<const TokenId> first = tokens.subspan(a - length, length);
  return std::equal(first.begin(), first.end(), tokens.subspan(b - length, length).begin());
}

}  // namespace

NgramDrafter::NgramDrafter(std::span<const TokenId> prompt, int32_t max_tokens) {
  const size_t num_tokens = prompt.size() + static_cast<size_t>(std::min(max_tokens, kRoomForOutput));
  for (std::vector<uint32_t>& places : places_) places.assign(std::bit_ceil(2 * num_tokens), 0);
  Learn(prompt);
}

uint32_t& NgramDrafter::SlotOf(std::span<const TokenId> tokens, size_t place, size_t table) {
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15U;  // Fibonacci hashing
  const size_t length = kLengths[table];
  uint64_t hash = 0;
  for (const TokenId token : tokens.subspan(place - length, length)) {
    hash = (hash ^ static_cast<uint32_t>(token)) * kGoldenRatio;
  }
  std::vector<uint32_t>& places = places_[table];
  const size_t mask = places.size() - 1;
  const size_t first = static_cast<size_t>(hash >> 32) & mask;
  for (size_t i = 0; i < kProbes; ++i) {
    uint32_t& slot = places[(first + i) & mask];
    if (slot == 0 || SameNgram(tokens, slot, place, length)) return slot;
  }
  return places[first];
}

void NgramDrafter::Learn(std::span<const TokenId> tokens) {
  for (size_t place = std::max<size_t>(num_learned_, 1); place < tokens.size(); ++place) {
    for (size_t table = 0; table < kLengths.size(); ++table) {
      if (place >= kLengths[table]) SlotOf(tokens, place, table) = static_cast<uint32_t>(place);
    }
  }
  num_learned_ = tokens.size();
}

void NgramDrafter::Draft(std::span<const TokenId> tokens, int32_t max_drafts, std::vector<TokenId>* drafts) {
  Learn(tokens);
  for (size_t table = 0; table < kLengths.size(); ++table) {
    if (tokens.size() <= kLengths[table]) continue;
    const size_t place = SlotOf(tokens, tokens.size(), table);
    if (place == 0 || !SameNgram(tokens, place, tokens.size(), kLengths[table])) continue;
    const size_t period = tokens.size() - place;
    for (size_t i = 0; i < static_cast<size_t>(max_drafts); ++i) drafts->push_back(tokens[place + i % period]);
    return;
  }
}

}  // namespace dunlin::engine
