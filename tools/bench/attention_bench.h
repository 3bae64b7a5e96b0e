// SPDX-License-Identifier: Apache-2.0
// The two kinds of cases of `dunlin bench attention`: dense tensors, and queries against KV pages.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/api/attention.h"
#include "tools/bench/session.h"

namespace dunlin::tools::bench {

// Self-attention over [batch, heads, tokens, head_dim]; the dtype is not kF8E4M3.
struct DenseProblem {
  std::string case_name;
  kernels::AttentionBackend backend;
  kernels::DType dtype;
  int32_t batch;
  int32_t num_heads;
  int32_t num_kv_heads;  // divides num_heads
  int32_t tokens;
  int32_t head_dim;
  bool causal;
};
// FAILED_PRECONDITION with every reason when the device does not support the problem.
absl::Status RunDense(Session* session, const DenseProblem& problem);

// Causal attention over KV pages: the last `queries` of `context` tokens of each of `sequences` sequences.
struct PagedProblem {
  std::string case_name;
  kernels::AttentionBackend backend;
  kernels::DType dtype;  // of the pages
  int32_t sequences;
  int32_t num_heads;
  int32_t num_kv_heads;  // divides num_heads
  int32_t queries;       // 1: decode; context: prefill
  int32_t context;
  int32_t head_dim;
  int32_t v_head_dim = 0;  // not 0: values are so many of the last dimensions of their keys (KvShape::values_in_keys)
  float softcap = 0.0F;    // of the scores; 0: none
  bool alibi = false;      // the scores fall with the distance
  int32_t selected = 0;    // keys that each row chooses of those that it sees (KeySelection), at random; 0: all
};
// As RunDense.
absl::Status RunPaged(Session* session, const PagedProblem& problem);

}  // namespace dunlin::tools::bench
