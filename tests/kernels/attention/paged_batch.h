// A batch of synthetic sequences in KV pages: random page order, NaN in every slot that holds no token, an absurd page
// id in the tail of the page table, queries and keys by (sequence seed, position).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/api/attention.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {

inline constexpr int32_t kGarbagePage = 2147480000;

struct HeadShape {
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
};

// The rows [first_position, first_position + query_len) of the sequence `seed`; its pages hold the keys before them
// too.
struct BatchSequence {
  uint64_t seed;
  int32_t first_position;
  int32_t query_len;
  int32_t poison_from = INT32_MAX;  // tokens at this position and later have NaN for query, key and value
  int32_t poison_before = 0;        // tokens before this position too
};

class PagedBatch {
 public:
  PagedBatch(DType dtype, const HeadShape& shape, std::vector<BatchSequence> sequences, uint64_t layout_seed = 1);

  // Runs the batch; [total rows, num_heads, head_dim]. Fails the test on a bad status or a write past the workspace.
  std::vector<float> Run(AttentionBackend backend, const std::string& variant, int num_threads);

  // Row of sequence i's token t (0 is its first query), one head, in what Run returned.
  const float* Row(const std::vector<float>& out, size_t sequence, int32_t token, int32_t head) const;

  // Keys or values of (sequence i, KV head) for its first kv_len positions, rounded to the dtype: [kv_len, head_dim].
  std::vector<float> Tokens(size_t sequence, Kind kind, int32_t kv_head) const;
  const float* Query(size_t sequence, int32_t token, int32_t head) const;

  // Writes `value` into every slot of every page that holds no token, pair partners included.
  void FillUnusedSlots(float value);

  const std::vector<SequenceSpan>& spans() const { return spans_; }
  float scale = 0.5F;
  int32_t window = 0;
  float softcap = 0.0F;
  bool causal = true;

 private:
  void PlacePages(uint64_t layout_seed);
  void StoreTokens(size_t sequence);

  DType dtype_;
  HeadShape shape_;
  KvLayout layout_;
  std::vector<BatchSequence> sequences_;
  std::vector<SequenceSpan> spans_;
  std::vector<float> query_;
  std::vector<int32_t> page_table_;
  int64_t page_table_stride_ = 0;
  PoisonedMemory pool_;
};

}  // namespace dunlin::kernels::testing
