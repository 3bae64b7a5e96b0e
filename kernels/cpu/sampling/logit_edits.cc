// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sampling/logit_edits.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/api/logits.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// Word by word: most words of a grammar's mask allow or forbid all of their tokens.
void ApplyMask(const uint32_t* mask, int32_t vocab_size, float* logits) {
  for (int32_t first = 0; first < vocab_size; first += 32) {
    const int32_t count = std::min(32, vocab_size - first);
    const uint32_t all = count == 32 ? ~0U : (1U << count) - 1U;
    uint32_t forbidden = ~mask[first / 32] & all;
    if (forbidden == all) {
      std::fill_n(logits + first, count, kMasked);
      continue;
    }
    for (; forbidden != 0; forbidden &= forbidden - 1) logits[first + std::countr_zero(forbidden)] = kMasked;
  }
}

}  // namespace

bool HasEdits(const EditLists& edits) {
  return edits.num_biases > 0 || edits.num_counts > 0 || edits.num_banned > 0 || edits.has_mask;
}

void ApplyEdits(const SampleRow& row, const uint32_t* words, int32_t vocab_size, float* logits) {
  const EditLists& edits = row.edits;
  const uint32_t* word = words + edits.first_word;
  for (int32_t i = 0; i < edits.num_biases; ++i, word += 2) logits[word[0]] += std::bit_cast<float>(word[1]);
  for (int32_t i = 0; i < edits.num_counts; ++i, word += 2) {
    logits[word[0]] = Penalized(logits[word[0]], static_cast<int32_t>(word[1]), row);
  }
  for (int32_t i = 0; i < edits.num_banned; ++i) logits[*word++] = kMasked;
  if (edits.has_mask) ApplyMask(word, vocab_size, logits);
}

}  // namespace dunlin::kernels::cpu
