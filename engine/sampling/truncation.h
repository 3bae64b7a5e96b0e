// Restricts a distribution to its most likely tokens: min_p, top_k, top_p, in vLLM v1's order. Each keeps a prefix of
// the tokens ordered by (logit descending, id ascending), found by radix selection in O(vocab_size), never by a sort.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/types.h"

namespace dunlin::engine {

// Zeroes weights outside of what the request keeps; tokens with weight 0 take no part.
//   min_p: keeps weight >= min_p * (largest weight).
//   top_k: keeps the k most likely of these; 0 keeps all.
//   top_p: of these, the smallest prefix whose share of their weight reaches top_p, at least one token; 1 keeps all.
// One instance per engine thread: it owns the histograms.
class Truncation {
 public:
  Truncation();
  // logits, weights: [vocab_size]; weights[i] = e^((logits[i] - max) / temperature), so the largest is 1.
  // Does not allocate.
  void Apply(const SamplingParams& sampling, const float* logits, int32_t vocab_size, float* weights);

 private:
  struct Bin {
    int64_t count = 0;
    double mass = 0.0;
  };
  // The end of a prefix: tokens with a larger key, and the first `num_equal` ids of those with this key.
  struct Cut {
    uint32_t key = 0;
    int64_t num_equal = 0;
  };
  // Finds where the running total (of tokens, or of weight) reaches `target`. REQUIRES: target is below the whole.
  Cut FindCut(const float* logits, const float* weights, int32_t vocab_size, double target, bool by_mass);

  std::vector<Bin> bins_;  // [2048]
};

}  // namespace dunlin::engine
