// SPDX-License-Identifier: Apache-2.0
// The paged call by which a checked row of kernel_table.cc is compared with the general row behind it, and its launch:
// sequences of one token and chunks, of one split and several, with page tails that hold NaN. Deterministic. Host code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention/kernel.h"

namespace dunlin::kernels::cuda {

// What is applied to the scores of a checked call.
enum class CheckedScores : uint8_t { kPlain, kCapped, kSloped };

struct AttentionCheck {
  static constexpr int32_t kNumHeads = 6;
  static constexpr int32_t kNumKvHeads = 2;
  static constexpr int32_t kPlainDims = 64;  // of latent rows, those that are not the values'

  // Of the row's dtype and its most dims.
  explicit AttentionCheck(const AttentionKernel& kernel);

  // Where the vectors lie that the call reads; of the device, or these.
  struct Places {
    const void* pool;
    const int32_t* page_table;
    const SequenceSpan* spans;
    const float* query;
    const float* slopes;
    float* out;
  };
  // The call of every sequence; decode: of those of one token alone, which come first.
  AttentionCall Call(const Places& places, bool decode, CheckedScores scores) const;
  // Whose calls the row takes, in one phase or the other.
  std::vector<CheckedScores> ScoresOf(const AttentionKernel& kernel) const;
  size_t out_floats(bool decode) const;
  AttentionTraits traits() const;

  int32_t value_dim() const { return latent ? head_dim - kPlainDims : head_dim; }

  DType dtype;
  bool latent;  // the row takes latent rows alone
  int32_t head_dim;
  std::vector<unsigned char> pool;
  std::vector<int32_t> page_table;
  std::vector<SequenceSpan> spans;
  std::vector<float> query;   // [tokens, kNumHeads, head_dim]
  std::vector<float> slopes;  // [kNumHeads]

 private:
  int32_t num_one_token_ = 0;
};

// Enqueues a call on a row's kernels. A workspace without room for parts does; rows whose
// blocks keep totals in it need that of one block, else nothing is launched.
void LaunchRow(const AttentionKernel& kernel, const AttentionCall& call, const DeviceShape& device, void* workspace,
               size_t workspace_bytes, Stream stream);

// Whether outputs agree up to the rounding of 16-bit weights; false for values that are not finite, too.
bool OutputsAgree(std::span<const float> expected, std::span<const float> out);

// The bits of all checked rows that the device could run.
uint64_t CheckedAttention(const DeviceShape& device);

}  // namespace dunlin::kernels::cuda
