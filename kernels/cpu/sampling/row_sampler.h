// SPDX-License-Identifier: Apache-2.0
// Draws one token from one row of FP32 logits, or scores one, as SampleParams says. Pure functions of their input.
// Thread rule: one instance per caller; its scratch is the caller's workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/sampling.h"
#include "kernels/cpu/sampling/truncation.h"

namespace dunlin::kernels::cpu {

class RowSampler {
 public:
  // Bytes of scratch for rows of a length, a multiple of 64.
  static size_t WorkspaceBytes(int32_t vocab_size);

  // vocab_size: length of every row, > 0. workspace: WorkspaceBytes of it, 64-byte aligned; borrowed.
  RowSampler(int32_t vocab_size, std::byte* workspace);

  // logits [vocab_size]; words: SampleParams::words. False as SampledToken::valid.
  [[nodiscard]] bool Sample(const SampleRow& row, const float* logits, const uint32_t* words, TokenOutput* out);

  // Scores a given token against a raw row: its log probability, its rank, and the num_top most likely. False as above.
  [[nodiscard]] bool Score(const float* logits, int32_t token_id, int32_t num_top, TokenOutput* out) const;

 private:
  int32_t Draw(const SampleRow& row, const float* logits, float max);
  // The token at which the running sum of weights_, in order of id, passes uniform * their sum.
  int32_t PickAt(double uniform);

  int32_t vocab_size_;
  Truncation truncation_;
  double* block_sums_;  // [ceil(vocab_size / kWeightBlock)] of weights_
  float* edited_;       // [vocab_size] the row after the edits
  float* weights_;      // [vocab_size] unnormalised probabilities
};

}  // namespace dunlin::kernels::cpu
