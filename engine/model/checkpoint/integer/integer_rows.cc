// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/integer/integer_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/integer/integer_values.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

// Where the code of row 8 j + i lies in its word, in codes. Source: AutoAWQ, packing order [0, 2, 4, 6, 1, 3, 5, 7].
constexpr int32_t kAwqOrder[] = {0, 4, 1, 5, 2, 6, 3, 7};

}  // namespace

absl::StatusOr<IntegerRows> IntegerRows::Load(const TensorSource& source, const IntegerWeight& weight) {
  IntegerRows rows(weight);
  const TensorInfo& codes = *weight.codes;
  const size_t bytes = codes.end - codes.begin;
  if (!rows.codes_.Reserve(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of tensor ", codes.name));
  }
  absl::Status status = source.Read(codes, 0, rows.codes_.bytes().first(bytes));
  if (status.ok()) status = rows.FillTable(source);
  if (status.ok()) status = rows.ReadScales(source);
  if (status.ok()) status = rows.ReadZeros(source);
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<int32_t>> group_of = ReadGroupIndex(source, weight);
  if (!group_of.ok()) return group_of.status();
  rows.group_of_ = *std::move(group_of);
  return rows;
}

absl::Status IntegerRows::FillTable(const TensorSource& source) {
  if (weight_->table != nullptr) {
    const absl::StatusOr<std::vector<float>> table = ReadFloats(source, *weight_->table);
    if (!table.ok()) return table.status();
    std::copy(table->begin(), table->end(), table_.begin());
    return absl::OkStatus();
  }
  // Codes of compressed-tensors and of signed bytes are read with their sign bit flipped.
  const bool flipped = weight_->layout == IntegerLayout::kPacked || weight_->layout == IntegerLayout::kInt8Rows ||
                       weight_->layout == IntegerLayout::kTorchao;
  const int32_t middle = flipped ? 1 << (weight_->bits - 1) : 0;
  for (int32_t code = 0; code < 1 << weight_->bits; ++code) {
    table_[static_cast<size_t>(code)] = static_cast<float>(code - middle);
  }
  return absl::OkStatus();
}

absl::Status IntegerRows::ReadNestedScales(const TensorSource& source, std::vector<float>* values) const {
  const absl::StatusOr<std::vector<std::byte>> codes = ReadWhole(source, *weight_->scales);
  if (!codes.ok()) return codes.status();
  const absl::StatusOr<std::vector<float>> nested = ReadFloats(source, *weight_->nested_scales);
  if (!nested.ok()) return nested.status();
  const absl::StatusOr<std::vector<float>> table = ReadFloats(source, *weight_->scale_table);
  if (!table.ok()) return table.status();
  values->resize(codes->size());
  for (size_t i = 0; i < values->size(); ++i) {
    const float scale = (*nested)[i / static_cast<size_t>(weight_->nested_group)];
    (*values)[i] = (*table)[std::to_integer<size_t>((*codes)[i])] * scale + weight_->scale_offset;
  }
  return absl::OkStatus();
}

absl::Status IntegerRows::ReadScales(const TensorSource& source) {
  if (weight_->nested_scales != nullptr) return ReadNestedScales(source, &scales_);
  absl::StatusOr<std::vector<float>> stored = ReadPlainScales(source, *weight_);
  if (!stored.ok()) return stored.status();
  scales_ = *std::move(stored);
  const bool by_group = weight_->layout == IntegerLayout::kGptq || weight_->layout == IntegerLayout::kAwq;
  if (!by_group) return absl::OkStatus();
  const auto num_rows = static_cast<size_t>(weight_->rows);
  const auto num_groups = static_cast<size_t>(weight_->num_groups);
  std::vector<float> by_row(scales_.size());
  for (size_t n = 0; n < num_rows; ++n) {
    for (size_t g = 0; g < num_groups; ++g) by_row[n * num_groups + g] = scales_[g * num_rows + n];
  }
  scales_ = std::move(by_row);
  return absl::OkStatus();
}

absl::Status IntegerRows::ReadZeros(const TensorSource& source) {
  if (weight_->zeros == nullptr) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::byte>> stored = ReadWhole(source, *weight_->zeros);
  if (!stored.ok()) return stored.status();
  const int32_t bits = weight_->bits;
  const int64_t per_word = kCodeWordBits / bits;
  const auto words = (weight_->rows + per_word - 1) / per_word;
  zeros_.resize(static_cast<size_t>(weight_->rows * weight_->num_groups));
  for (int64_t n = 0; n < weight_->rows; ++n) {
    for (int64_t g = 0; g < weight_->num_groups; ++g) {
      float& zero = zeros_[static_cast<size_t>(n * weight_->num_groups + g)];
      if (weight_->zeros->dtype->bits == 8) {
        zero = static_cast<float>(ElementAt<int8_t>(*stored, static_cast<size_t>(n * weight_->num_groups + g)));
        continue;
      }
      const bool by_row = weight_->layout == IntegerLayout::kPacked;  // [words, groups], else [groups, words]
      const int64_t word = by_row ? n / per_word * weight_->num_groups + g : g * words + n / per_word;
      const int64_t place =
          weight_->layout == IntegerLayout::kAwq && bits == 4 ? kAwqOrder[n % per_word] : n % per_word;
      const uint32_t code =
          ElementAt<uint32_t>(*stored, static_cast<size_t>(word)) >> (place * bits) & ((1U << bits) - 1U);
      zero = table_[code] + static_cast<float>(weight_->zero_offset);
    }
  }
  return absl::OkStatus();
}

void IntegerRows::Codes(int64_t first, int64_t count, uint8_t* codes) const {
  const int64_t columns = weight_->columns;
  const int32_t bits = weight_->bits;
  const int64_t per_word = kCodeWordBits / bits;
  const uint32_t mask = (1U << bits) - 1U;
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes_.bytes().data());
  const auto word = [bytes](int64_t index) {
    uint32_t value;
    std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(value)), sizeof(value));
    return value;
  };
  // The first codes of a word, from its low bits up.
  const auto unpack = [bits, mask](uint32_t packed, int64_t number, uint8_t* out) {
    for (int64_t i = 0; i < number; ++i) out[i] = static_cast<uint8_t>(packed >> (i * bits) & mask);
  };
  switch (weight_->layout) {
    case IntegerLayout::kPacked:
    case IntegerLayout::kInt8Rows:
    case IntegerLayout::kTorchao:
      if (weight_->codes->dtype->bits == 8) {
        const uint8_t* stored = bytes + first * columns;
        for (int64_t i = 0; i < count * columns; ++i) codes[i] = stored[i] ^ 0x80U;
        return;
      }
      for (int64_t r = 0; r < count; ++r) {
        const int64_t row = (first + r) * weight_->codes->shape[1];
        for (int64_t k = 0; k < columns; k += per_word) {
          unpack(word(row + k / per_word), std::min(per_word, columns - k), codes + r * columns + k);
        }
      }
      return;
    case IntegerLayout::kGptq:
      for (int64_t w = 0; w < columns / per_word; ++w) {
        for (int64_t r = 0; r < count; ++r) {
          unpack(word(w * weight_->rows + first + r), per_word, codes + r * columns + w * per_word);
        }
      }
      return;
    case IntegerLayout::kAwq:
      for (int64_t k = 0; k < columns; ++k) {
        for (int64_t r = 0; r < count; ++r) {
          const int64_t n = first + r;
          const uint32_t packed = word(k * weight_->codes->shape[1] + n / per_word);
          codes[r * columns + k] = static_cast<uint8_t>(packed >> (kAwqOrder[n % per_word] * bits) & mask);
        }
      }
      return;
    case IntegerLayout::kBits4Map:
      for (int64_t i = 0; i < count * columns; ++i) {
        const int64_t at = first * columns + i;
        codes[i] = at % 2 == 0 ? bytes[at / 2] >> 4U : bytes[at / 2] & 0xFU;
      }
      return;
    case IntegerLayout::kNone:
      return;
  }
}

void IntegerRows::Dequantize(int64_t first, int64_t count, float* out) const {
  const int64_t columns = weight_->columns;
  std::vector<uint8_t> codes(static_cast<size_t>(std::min(count, kRowsAtOnce) * columns));
  for (int64_t done = 0; done < count; done += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, count - done);
    Codes(first + done, rows, codes.data());
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t scale_row = (first + done + r) * weight_->num_groups;
      const uint8_t* code = codes.data() + r * columns;
      float* row = out + (done + r) * columns;
      for (int64_t k = 0; k < columns; ++k) {
        const int64_t g = group_of_.empty() ? k / weight_->group : group_of_[static_cast<size_t>(k)];
        const auto index = static_cast<size_t>(scale_row + g);
        const float zero = zeros_.empty() ? 0.0F : zeros_[index];
        row[k] = (table_[code[k]] - zero) * scales_[index];
      }
    }
  }
}

void IntegerRows::ReadCodes(const kernels::CodeTraits& traits, int64_t first, int64_t count, CodedRows* out) const {
  const int64_t columns = weight_->columns;
  const auto middle = static_cast<size_t>(1) << static_cast<size_t>(weight_->bits - 1);
  out->Resize(traits, count, columns);
  auto* codes = reinterpret_cast<uint8_t*>(out->codes.data());
  for (int64_t done = 0; done < count; done += kRowsAtOnce) {
    Codes(first + done, std::min(kRowsAtOnce, count - done), codes + done * columns);
  }
  for (int8_t& code : out->codes) code = static_cast<int8_t>(static_cast<uint8_t>(code) - middle);
  const auto first_group = static_cast<size_t>(first * weight_->num_groups);
  const auto groups = static_cast<size_t>(count * weight_->num_groups);
  for (size_t g = 0; g < groups; ++g) {
    const float scale = scales_[first_group + g];
    if (traits.wide) {
      out->wide_factors[g] = scale;
    } else {
      out->factors[g] = kernels::FloatToFp16(scale);
    }
    if (traits.zero_points) out->zero_points[g] = static_cast<int8_t>(zeros_[first_group + g] - table_[middle]);
  }
}

}  // namespace dunlin::engine
