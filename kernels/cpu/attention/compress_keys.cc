// SPDX-License-Identifier: Apache-2.0
// Rows of tokens into pages, and the entries that are made of them. Of a call all rows are stored before the first
// entry is made; an entry is one task's.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/attention/entry_pages.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

void StoreNumbers(const float* values, int64_t count, DType dtype, std::byte* to) {
  if (dtype == DType::kF32) {
    std::memcpy(to, values, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = dtype == DType::kF16 ? FloatToFp16(values[i]) : FloatToBf16(values[i]);
    std::memcpy(to + static_cast<size_t>(i) * sizeof(bits), &bits, sizeof(bits));
  }
}

void LoadNumbers(const std::byte* from, int64_t count, DType dtype, float* values) {
  if (dtype == DType::kF32) {
    std::memcpy(values, from, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, from + static_cast<size_t>(i) * sizeof(bits), sizeof(bits));
    values[i] = dtype == DType::kF16 ? Fp16ToFloat(bits) : Bf16ToFloat(bits);
  }
}

size_t RowOffset(const PagePlace& rows, const int32_t* pages, int32_t position) {
  const KvLayout& layout = rows.layout;
  const int32_t slot = position % layout.tokens_per_page;
  const auto element = static_cast<size_t>(slot * layout.shape.index_dim + rows.offset);
  return IndexBlockOffset(layout, pages[position / layout.tokens_per_page], rows.layer) +
         element * SizeOf(layout.dtype);
}

const int32_t* PagesOf(const CompressKeysParams& params, const PagePlace& place, const SequenceSpan& span) {
  return place.page_table + span.page_table_row * params.page_table_stride;
}

// body(span, i) for each i below count(span) of every span.
template <typename Count, typename Body>
void ForEachOfSpans(DeviceContext* context, const CompressKeysParams& params, const Count& count, const Body& body) {
  int64_t total = 0;
  for (int32_t i = 0; i < params.num_sequences; ++i) total += count(params.sequences[i]);
  context->pool.Run(total, [&](int64_t task, int) {
    const SequenceSpan* span = params.sequences;
    for (; task >= count(*span); ++span) task -= count(*span);
    body(*span, static_cast<int32_t>(task));
  });
}

// The sums of an entry's dimensions, one token of its group, or of the one before, after the other.
class GatedSums {
 public:
  GatedSums(const CompressKeysParams& params, const int32_t* pages) : params_(params), pages_(pages) {}

  // Of series 0 of the tokens from `before` on and the last series of those from `own` on, `rate` of each; before < 0:
  // of the own ones alone.
  void Run(int32_t before, int32_t own) {
    std::fill_n(largest_, params_.dim, -INFINITY);
    std::fill_n(sums_, params_.dim, 0.0F);
    std::fill_n(values_, params_.dim, 0.0F);
    const auto each = [&](auto visit) {
      if (before >= 0) VisitTokens(before, 0, visit);
      VisitTokens(own, params_.series - 1, visit);
    };
    each([this](const float*, const float* gates) {
      for (int32_t d = 0; d < params_.dim; ++d) largest_[d] = std::max(largest_[d], gates[d]);
    });
    each([this](const float* values, const float* gates) {
      for (int32_t d = 0; d < params_.dim; ++d) {
        const float weight = std::exp(gates[d] - largest_[d]);
        sums_[d] += weight;
        values_[d] += weight * values[d];
      }
    });
    for (int32_t d = 0; d < params_.dim; ++d) values_[d] /= sums_[d];
  }

  float* values() { return values_; }

 private:
  template <typename Visit>
  void VisitTokens(int32_t first, int32_t series, const Visit& visit) {
    const DType dtype = params_.row_place.layout.dtype;
    const int64_t width = int64_t{params_.series} * params_.dim;
    for (int32_t i = 0; i < params_.entries.rate; ++i) {
      const std::byte* row = static_cast<const std::byte*>(params_.kv_pool) +
                             RowOffset(params_.row_place, pages_, first + i) +
                             static_cast<size_t>(series * params_.dim) * SizeOf(dtype);
      LoadNumbers(row, params_.dim, dtype, row_);
      LoadNumbers(row + static_cast<size_t>(width) * SizeOf(dtype), params_.dim, dtype, gates_);
      const float* bias = params_.bias + i * width + int64_t{series} * params_.dim;
      for (int32_t d = 0; d < params_.dim; ++d) gates_[d] += bias[d];
      visit(row_, gates_);
    }
  }

  const CompressKeysParams& params_;
  const int32_t* pages_;
  float largest_[kCompressedDimMax];
  float sums_[kCompressedDimMax];
  float values_[kCompressedDimMax];
  float row_[kCompressedDimMax];
  float gates_[kCompressedDimMax];
};

void NormAndRotate(const CompressKeysParams& params, int32_t position, float* values) {
  double squares = 0.0;
  for (int32_t d = 0; d < params.dim; ++d) squares += static_cast<double>(values[d]) * values[d];
  const auto mean = static_cast<float>(squares / params.dim);
  const float factor = 1.0F / std::sqrt(mean + params.epsilon);
  for (int32_t d = 0; d < params.dim; ++d) values[d] = values[d] * factor * params.norm[d];
  float* rotated = values + params.dim - params.rotary_dim;
  for (int32_t i = 0; i < params.rotary_dim / 2; ++i) {
    const float turned = static_cast<float>(position) * params.inv_freq[i];
    const auto angle = static_cast<double>(turned);  // as RotaryTable rounds it
    const float cosine = static_cast<float>(std::cos(angle)) * params.attention_factor;
    const float sine = static_cast<float>(std::sin(angle)) * params.attention_factor;
    const float a = rotated[2 * i];
    const float b = rotated[2 * i + 1];
    rotated[2 * i] = a * cosine - b * sine;
    rotated[2 * i + 1] = b * cosine + a * sine;
  }
}

void MakeEntry(const CompressKeysParams& params, const SequenceSpan& span, int32_t entry) {
  const int32_t first = entry * params.entries.rate;
  const bool overlaps = params.series == 2 && entry > 0;
  GatedSums sums(params, PagesOf(params, params.row_place, span));
  sums.Run(overlaps ? first - params.entries.rate : -1, first);
  NormAndRotate(params, first, sums.values());
  const size_t offset = EntryOffset(params.entries, PagesOf(params, params.entries.place, span), entry);
  StoreNumbers(sums.values(), params.dim, params.entries.place.layout.dtype,
               static_cast<std::byte*>(params.kv_pool) + offset);
}

bool Valid(const CompressKeysParams& params) {
  const PagePlace& rows = params.row_place;
  const int64_t width = 2 * int64_t{params.series} * params.dim;
  if (params.series < 1 || params.series > 2 || params.dim < 1 || params.dim > kCompressedDimMax) return false;
  if (params.rotary_dim < 0 || params.rotary_dim > params.dim || params.rotary_dim % 2 != 0) return false;
  if (rows.layout.dtype == DType::kF8E4M3 || rows.layer < 0 || rows.layer >= rows.layout.shape.num_layers) return false;
  if (rows.offset < 0 || rows.offset + width > rows.layout.shape.index_dim) return false;
  return params.num_sequences >= 0 && params.epsilon > 0.0F && ValidEntries(params.entries, params.dim);
}

}  // namespace

KernelStatus CompressKeys(DeviceContext* context, const CompressKeysParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const int64_t width = 2 * int64_t{params.series} * params.dim;
  const int32_t rate = params.entries.rate;
  const auto tokens_of = [](const SequenceSpan& span) { return int64_t{span.query_len}; };
  ForEachOfSpans(context, params, tokens_of, [&](const SequenceSpan& span, int32_t i) {
    const size_t offset = RowOffset(params.row_place, PagesOf(params, params.row_place, span), span.first_position + i);
    StoreNumbers(params.rows + (int64_t{span.query_start} + i) * width, width, params.row_place.layout.dtype,
                 static_cast<std::byte*>(params.kv_pool) + offset);
  });
  const auto entries_of = [rate](const SequenceSpan& span) {
    return int64_t{(span.first_position + span.query_len) / rate - span.first_position / rate};
  };
  ForEachOfSpans(context, params, entries_of,
                 [&](const SequenceSpan& span, int32_t i) { MakeEntry(params, span, span.first_position / rate + i); });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
