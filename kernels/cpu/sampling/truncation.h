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
  static constexpr size_t WorkspaceBytes(int32_t vocab_size) {
    return kNumBins * sizeof(Bin) + static_cast<size_t>(vocab_size) * 2 * sizeof(int32_t);
  }

  // workspace: WorkspaceBytes of the longest row, 8-byte aligned; borrowed.
  Truncation(int32_t vocab_size, std::byte* workspace)
      : bins_(reinterpret_cast<Bin*>(workspace)),
        kept_(reinterpret_cast<int32_t*>(bins_ + kNumBins)),
        narrowed_(kept_ + vocab_size) {}

  // logits, weights: [vocab_size]; max: the largest logit; weights[i] = e^((logits[i] - max) / temperature), so the
  // largest is 1. Does not allocate.
  void Apply(const SampleRow& row, const float* logits, float max, int32_t vocab_size, float* weights);

 private:
  // The end of a prefix: tokens with a larger key, and the first `num_equal` ids of those with this key.
  struct Cut {
    uint32_t key = 0;
    int64_t num_equal = 0;
  };
  // Tokens in ascending order: all of a row, or a list of ids. Every total adds in this order, and a cut depends only
  // on the totals of the tokens above it: a list that holds all of these gives the same cut, to the bit, as the whole
  // row.
  struct Tokens {
    const int32_t* ids;  // null: token i is i
    int32_t count;
    int32_t operator[](int32_t i) const { return ids == nullptr ? i : ids[i]; }
  };
  // The tokens near the maximum, listed in kept_, if they reach `target` for certain; else the whole row.
  Tokens ListLikely(const SampleRow& row, const float* logits, float max, int32_t vocab_size, const float* weights,
                    double target, bool by_mass);
  // Finds where the running total (of tokens, or of weight) reaches `target`. REQUIRES: target is below the whole.
  Cut FindCut(const float* logits, const float* weights, Tokens tokens, double target, bool by_mass);
  // Adds the tokens with weight whose key matches the prefix to the bins of the digit.
  void Count(const float* logits, const float* weights, Tokens tokens, uint32_t prefix, uint32_t prefix_mask,
             int digit_index);
  // Zeroes the weights beyond the cut. Returns the tokens that keep theirs, listed in kept_.
  Tokens Keep(const float* logits, Tokens tokens, Cut cut, int32_t vocab_size, float* weights);

  Bin* bins_;          // [kNumBins]
  int32_t* kept_;      // [vocab_size] ids that may be kept; after a cut, those that are
  int32_t* narrowed_;  // [vocab_size] ids that match the first digit; then the weights of kept_
};

}  // namespace dunlin::kernels::cpu
