// SPDX-License-Identifier: Apache-2.0
// The choice of entries by their index keys, as key_selection.cc chooses keys: scores of some rows over groups of
// entries, then each row's choice.
#include <algorithm>
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/entry_pages.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int32_t kGroupEntries = 16;    // of RowKernels::index_scores
constexpr int32_t kTaskEntries = 256;    // of a task
constexpr int32_t kEntryIndexMax = 512;  // dimensions: a group as floats is 32 KiB of a worker's stack

// Entries [first, first + kGroupEntries) as floats, [dim, kGroupEntries]; the last of `count` for those behind it.
void LoadEntries(const SelectEntriesParams& params, const int32_t* pages, int32_t first, int32_t count, float* group) {
  const DType dtype = params.entries.place.layout.dtype;
  for (int32_t i = 0; i < kGroupEntries; ++i) {
    const std::byte* entry = static_cast<const std::byte*>(params.kv_pool) +
                             EntryOffset(params.entries, pages, std::min(first + i, count - 1));
    for (int32_t d = 0; d < params.dim; ++d) {
      float& value = group[d * kGroupEntries + i];
      if (dtype == DType::kF32) {
        std::memcpy(&value, entry + static_cast<size_t>(d) * sizeof(float), sizeof(float));
        continue;
      }
      uint16_t bits = 0;
      std::memcpy(&bits, entry + static_cast<size_t>(d) * sizeof(bits), sizeof(bits));
      value = dtype == DType::kF16 ? Fp16ToFloat(bits) : Bf16ToFloat(bits);
    }
  }
}

// Rows [first_row, first_row + count) of a sequence, at most kSelectionRows.
void SelectOfRows(DeviceContext* context, const SelectEntriesParams& params, const SequenceSpan& span,
                  int32_t first_row, int32_t count) {
  const int32_t* pages = params.entries.place.page_table + span.page_table_row * params.page_table_stride;
  const int64_t row = int64_t{span.query_start} + first_row;
  const auto limit_of = [&](int64_t r) {
    return (span.first_position + first_row + static_cast<int32_t>(r) + 1) / params.entries.rate;
  };
  const int32_t entries = limit_of(count - 1);  // that the last row sees
  const int64_t tasks = entries <= params.top_k ? 0 : (entries + kTaskEntries - 1) / kTaskEntries;
  context->pool.Run(tasks, [&](int64_t task, int) {
    alignas(64) float group[kEntryIndexMax * kGroupEntries];
    alignas(64) float scores[kGroupEntries];
    const auto end = static_cast<int32_t>(std::min<int64_t>((task + 1) * kTaskEntries, entries));
    for (auto first = static_cast<int32_t>(task * kTaskEntries); first < end; first += kGroupEntries) {
      LoadEntries(params, pages, first, entries, group);
      for (int32_t r = 0; r < count; ++r) {
        if (limit_of(r) <= first) continue;
        context->kernels.index_scores({.keys = group,
                                       .queries = params.queries + (row + r) * params.num_heads * params.dim,
                                       .weights = params.weights + (row + r) * params.num_heads,
                                       .num_heads = params.num_heads,
                                       .dim = params.dim,
                                       .scores = scores});
        std::copy_n(scores, std::min(kGroupEntries, entries - first),
                    params.scores + r * int64_t{params.max_entries} + first);
      }
    }
  });
  context->pool.Run(count, [&](int64_t r, int) {
    const int32_t limit = limit_of(r);
    if (limit == 0) return;  // no word is read
    ChooseLargest(params.scores + r * params.max_entries, limit, params.top_k,
                  params.selected + (row + r) * params.selected_stride);
  });
}

}  // namespace

KernelStatus SelectEntries(DeviceContext* context, const SelectEntriesParams& params) {
  if (params.num_sequences < 0 || params.num_heads < 1 || params.dim < 2 || params.dim > kEntryIndexMax ||
      params.dim % 2 != 0 || params.top_k < 1 || !ValidEntries(params.entries, params.dim) ||
      params.selected_stride < (int64_t{params.max_entries} + 31) / 32) {
    return KernelStatus::kInvalidArgument;
  }
  for (int32_t i = 0; i < params.num_sequences; ++i) {
    const SequenceSpan& span = params.sequences[i];
    if (span.query_len < 0 || (span.first_position + span.query_len) / params.entries.rate > params.max_entries) {
      return KernelStatus::kInvalidArgument;
    }
    for (int32_t row = 0; row < span.query_len; row += kSelectionRows) {
      SelectOfRows(context, params, span, row, std::min(kSelectionRows, span.query_len - row));
    }
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
