// SPDX-License-Identifier: Apache-2.0
// Sampling, from rows of logits to tokens, as one operation: penalties, masks, temperature, truncation and the draw, or
// the score of a given token. A row's parameters are plain data, staged with the step; the result is a token and, where
// requested, the log-probabilities of a few. Arithmetic that devices share: logits.h, exponential.h, philox.h.
//
// Order, vLLM v1's: check the row; log-probabilities of the raw row; the edits; then greedy (argmax, lowest id on ties)
// when temperature is 0, else temperature, min_p, top_k, top_p and the draw.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dunlin::kernels {

inline constexpr int kMaxTopLogprobs = 20;

// The edits of a row's logits before a token is drawn: consecutive lists in SampleParams::words from `first_word` on,
// in the order in which they are applied. Ids are in [0, vocab_size); among biases, and among counts, each occurs at
// most once.
struct EditLists {
  int32_t first_word = 0;
  int32_t num_biases = 0;  // pairs (id, bits of a float): x += bias
  int32_t num_counts = 0;  // pairs (id, times in the output, + kInPrompt): Penalized, logits.h
  int32_t num_banned = 0;  // ids that get -infinity
  bool has_mask = false;  // MaskWords(vocab_size) words: token i gets -infinity unless bit i % 32 of word i / 32 is set
};

constexpr int32_t MaskWords(int32_t vocab_size) {
  return (vocab_size + 31) / 32;
}

// The numeric parameters of a draw, which requests set. Each has a row in engine/request/draw_params.h.
struct DrawParams {
  float temperature = 1.0F;         // [0, 100]; 0 is greedy
  int32_t top_k = 0;                // >= 0; 0 keeps all
  float top_p = 1.0F;               // (0, 1]
  float min_p = 0.0F;               // [0, 1]; relative to the most likely token
  float repetition_penalty = 1.0F;  // (0, 10]; over prompt and output
  float presence_penalty = 0.0F;    // [-2, 2]; over output
  float frequency_penalty = 0.0F;   // [-2, 2]; over output
};

// One row. A draw evaluates the generator at (seed, output_index, position), so a row has no state. The penalties apply
// to the tokens of num_counts.
struct SampleRow : DrawParams {
  int32_t logprobs = -1;  // -1 none, 0 the token's own, N also the N most likely; at most kMaxTopLogprobs
  uint64_t seed = 0;
  int32_t output_index = 0;
  int32_t position = 0;
  int32_t scored_token = -1;  // >= 0: score this token instead of drawing one, without edits; needs logprobs >= 0
  EditLists edits;
};

struct TopLogprob {
  int32_t token_id;
  float logprob;  // natural logarithm, of the distribution before temperature, penalties and truncation
};

// One drawn or scored token. top holds the num_top most likely tokens, most likely first, ties by lower id.
struct TokenOutput {
  int32_t token_id = 0;
  float logprob = 0.0F;  // valid when requested
  int32_t rank = 0;      // with logprob: how many tokens of the raw row are at least as likely, itself included; >= 1
  int32_t num_top = 0;
  std::array<TopLogprob, kMaxTopLogprobs> top;
};

// valid: false when the row has a NaN or +infinity, or the edits leave no finite logit; token is unspecified then.
struct SampledToken {
  TokenOutput token;
  bool valid = false;
};

// All pointers are device memory. The logits are not written. A row's result depends only on the row. Devices draw the
// same token, except where the rounding of an FP64 sum decides a top_p cut, and agree on log-probabilities up to FP32
// rounding.
struct SampleParams {
  const float* logits;     // [num_rows, vocab_size], contiguous rows
  int32_t vocab_size;      // > 0
  int32_t num_rows;        // >= 0
  const SampleRow* rows;   // [num_rows]
  const uint32_t* words;   // the edit lists of all rows; may be null when there are none
  SampledToken* out;       // [num_rows]
  void* workspace;         // 64-byte aligned
  size_t workspace_bytes;  // >= DeviceOps::sample_workspace(num_rows, vocab_size)
};

// A step's inputs that the step before draws, while that is in flight: token_ids[i] = drawn[rows[i]] for every i with
// rows[i] >= 0; the other ids stay. Of a draw that is not valid the id is 0, of a row that nobody may use. All pointers
// are device memory.
struct TakeDrawnParams {
  const SampledToken* drawn;
  const int32_t* rows;  // [num_tokens]
  int32_t* token_ids;   // [num_tokens]
  int32_t num_tokens;   // >= 0
};

// constexpr so that device code may call it.
constexpr void TakeDrawnAt(const TakeDrawnParams& params, int32_t token) {
  if (params.rows[token] < 0) return;
  const SampledToken& drawn = params.drawn[params.rows[token]];
  params.token_ids[token] = drawn.valid ? drawn.token.token_id : 0;
}

}  // namespace dunlin::kernels
