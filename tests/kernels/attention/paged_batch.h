// SPDX-License-Identifier: Apache-2.0
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
  int32_t v_head_dim = 0;  // not 0: values are so many of the last dimensions of their keys (KvShape::values_in_keys)

  int32_t out_dim() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
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

// How a device lays tokens out in a page. slot: in the page.
struct PageFormat {
  // Rounds a token's key and value, [head_dim] each, into its page. value: null where it is in the key.
  void (*store)(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
                const float* key, const float* value);
  // Makes every element of a slot, and its scales, `value`.
  void (*fill)(const KvLayout& layout, std::byte* pool, int32_t page, int32_t layer, int32_t kv_head, int32_t slot,
               float value);
};
extern const PageFormat kCpuPages;
extern const PageFormat kCudaPages;

class PagedBatch {
 public:
  PagedBatch(DType dtype, const HeadShape& shape, std::vector<BatchSequence> sequences, uint64_t layout_seed = 1,
             const PageFormat& format = kCpuPages);

  // The call, all but its workspace, and the least plan that covers it. Pointers are valid while the batch lives.
  PagedAttentionParams Params(AttentionBackend backend, float* out) const;
  PagedAttentionPlan Plan() const;
  size_t query_floats() const { return query_.size(); }
  size_t out_floats() const {
    return query_.size() / static_cast<size_t>(shape_.head_dim) * static_cast<size_t>(shape_.out_dim());
  }
  size_t pool_bytes() const { return pool_.size(); }
  size_t page_table_entries() const { return page_table_.size(); }

  // Runs the batch on the CPU; [total rows, num_heads, head_dim]. Fails the test on a bad status or a write past the
  // workspace.
  std::vector<float> Run(AttentionBackend backend, const std::string& variant, int num_threads);

  // Row of sequence i's token t (0 is its first query), one head, in what Run returned.
  const float* Row(const std::vector<float>& out, size_t sequence, int32_t token, int32_t head) const;

  // Keys or values of (sequence i, KV head) for its first kv_len positions, rounded to the dtype: [kv_len, head_dim],
  // values [kv_len, out_dim].
  std::vector<float> Tokens(size_t sequence, Kind kind, int32_t kv_head) const;
  const float* Query(size_t sequence, int32_t token, int32_t head) const;

  // The keys [KeyStart, KeyLimit) that the row sees.
  int32_t KeyStart(size_t sequence, int32_t token) const;
  int32_t KeyLimit(size_t sequence, int32_t token) const;

  // Writes `value` into every slot of every page that holds no token, pair partners included.
  void FillUnusedSlots(float value);

  // A bias that rises with the key's position and differs from head to head, in steps of an eighth.
  void SetKeyBias();
  // The head's row of key_bias, or null.
  const float* KeyBias(int32_t head) const;

  const std::vector<SequenceSpan>& spans() const { return spans_; }
  float scale = 0.5F;
  int32_t window = 0;
  float softcap = 0.0F;
  bool causal = true;
  std::vector<float> alibi_slopes;  // [num_heads], or empty
  std::vector<float> key_bias;      // [num_heads, keys of the longest sequence], or empty
  std::vector<float> sinks = {};    // [num_heads]; empty: none
  int32_t slack = 0;                // by which the call's bounds exceed its longest sequence

 private:
  void PlacePages(uint64_t layout_seed);
  void StoreTokens(size_t sequence);

  DType dtype_;
  HeadShape shape_;
  const PageFormat& format_;
  KvLayout layout_;
  std::vector<BatchSequence> sequences_;
  std::vector<SequenceSpan> spans_;
  std::vector<float> query_;
  std::vector<int32_t> page_table_;
  int64_t page_table_stride_ = 0;
  PoisonedMemory pool_;
};

}  // namespace dunlin::kernels::testing
