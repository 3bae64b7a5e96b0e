// SPDX-License-Identifier: Apache-2.0
// Restricts a distribution to its most likely tokens: min_p, top_k, top_p, in vLLM v1's order. Each keeps a prefix of
// the tokens ordered by (logit descending, id ascending), found by radix selection in O(vocab_size), never by a sort.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/sampling.h"

namespace dunlin::kernels::cpu {

// Zeroes weights outside of what the request keeps; tokens with weight 0 take no part.
//   min_p: keeps weight >= min_p * (largest weight).
//   top_k: keeps the k most likely of these; 0 keeps all.
//   top_p: of these, the smallest prefix whose share of their weight reaches top_p, at least one token; 1 keeps all.
class Truncation {
 private:
  struct Bin {
    int64_t count = 0;
    double mass = 0.0;
  };
  static constexpr size_t kNumBins = 2048;

 public:
  static constexpr size_t kWorkspaceBytes = kNumBins * sizeof(Bin);

  // workspace: kWorkspaceBytes for the histograms, 8-byte aligned; borrowed.
  explicit Truncation(std::byte* workspace) : bins_(reinterpret_cast<Bin*>(workspace)) {}

  // logits, weights: [vocab_size]; weights[i] = e^((logits[i] - max) / temperature), so the largest is 1.
  // Does not allocate.
  void Apply(const SampleRow& row, const float* logits, int32_t vocab_size, float* weights);

 private:
  // The end of a prefix: tokens with a larger key, and the first `num_equal` ids of those with this key.
  struct Cut {
    uint32_t key = 0;
    int64_t num_equal = 0;
  };
  // Finds where the running total (of tokens, or of weight) reaches `target`. REQUIRES: target is below the whole.
  Cut FindCut(const float* logits, const float* weights, int32_t vocab_size, double target, bool by_mass);

  Bin* bins_;  // [kNumBins]
};

}  // namespace dunlin::kernels::cpu
