// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sampling/logit_edits.h"

#include <bit>
#include <limits>

#include "kernels/api/logits.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

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
  for (int32_t id = 0; edits.has_mask && id < vocab_size; ++id) {
    if (!Allows(word, id)) logits[id] = kMasked;
  }
}

}  // namespace dunlin::kernels::cpu
