// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/attention/paged_error.h"

#include "tests/kernels/attention/synthetic.h"

namespace dunlin::kernels::testing {

ErrorBound PagedError(const PagedBatch& batch, const HeadShape& shape, const std::vector<BatchSequence>& sequences,
                      DType rounding, const std::vector<float>& out) {
  const int32_t group = shape.num_heads / shape.num_kv_heads;
  ErrorBound bound;
  for (size_t i = 0; i < sequences.size(); ++i) {
    for (int32_t head = 0; head < shape.num_heads; ++head) {
      const std::vector<float> keys = batch.Tokens(i, Kind::kKey, head / group);
      const std::vector<float> values = batch.Tokens(i, Kind::kValue, head / group);
      for (int32_t t = 0; t < sequences[i].query_len; ++t) {
        const int32_t position = sequences[i].first_position + t;
        const std::vector<float> query = Rounded(rounding, batch.Query(i, t, head), shape.head_dim);
        const ReferenceRow row{
            .q = query.data(),
            .keys = keys.data(),
            .values = values.data(),
            .limit = batch.KeyLimit(i, t),
            .head_dim = shape.head_dim,
            .scale = batch.scale,
            .begin = batch.KeyStart(i, t),
            .softcap = batch.softcap,
            .v_head_dim = shape.v_head_dim,
            .slope = batch.alibi_slopes.empty() ? 0.0F : batch.alibi_slopes[static_cast<size_t>(head)],
            .position = position,
            .bias = batch.KeyBias(head),
            .sink = batch.sinks.empty() ? nullptr : &batch.sinks[static_cast<size_t>(head)]};
        bound.Add(ExactRow(row), UnfusedRow(row, rounding), batch.Row(out, i, t, head));
      }
    }
  }
  return bound;
}

}  // namespace dunlin::kernels::testing
