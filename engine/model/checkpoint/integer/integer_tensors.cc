// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/integer/integer_tensors.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<TensorSource>> IntegerTensors::Open(const IntegerQuantization& quantization,
                                                                   std::unique_ptr<TensorSource> stored) {
  absl::StatusOr<std::vector<IntegerWeight>> weights = FindIntegerWeights(quantization, *stored);
  if (!weights.ok()) return weights.status();
  if (weights->empty()) {
    return absl::InvalidArgumentError("quantization_config is set, and the checkpoint has no weight of its layout");
  }
  std::unique_ptr<IntegerTensors> tensors(new IntegerTensors(std::move(stored)));
  for (IntegerWeight& weight : *weights) {
    if (absl::Status status = tensors->Add(std::move(weight)); !status.ok()) return status;
  }
  return tensors;
}

absl::Status IntegerTensors::Add(IntegerWeight weight) {
  absl::StatusOr<IntegerCodes> codes = DescribeCodes(stored(), weight);
  if (!codes.ok()) return codes.status();
  if (Derives(weight.name)) {
    return absl::InvalidArgumentError(absl::StrCat("weight '", weight.name, "' is quantised twice"));
  }
  Derive(weight.name, TensorDTypeOf(kernels::DType::kF32), {weight.rows, weight.columns}, *weight.codes);
  for (const TensorInfo* used :
       {weight.scales, weight.zeros, weight.group_index, weight.table, weight.nested_scales, weight.scale_table}) {
    Hide(used);
  }
  for (const TensorInfo* other : weight.others) Hide(other);
  codes_.push_back(*std::move(codes));
  weights_.push_back(std::move(weight));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const IntegerRows>> IntegerTensors::RowsOf(size_t index) const {
  const MutexLock lock(&mutex_);
  if (loaded_index_ == index) return loaded_;
  loaded_index_ = std::nullopt;
  loaded_ = nullptr;  // before the next one takes its memory
  absl::StatusOr<IntegerRows> rows = IntegerRows::Load(stored(), weights_[index]);
  if (!rows.ok()) return rows.status();
  loaded_ = std::make_shared<const IntegerRows>(*std::move(rows));
  loaded_index_ = index;
  return loaded_;
}

absl::Status IntegerTensors::ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const {
  const absl::StatusOr<std::shared_ptr<const IntegerRows>> rows = RowsOf(index);
  if (!rows.ok()) return rows.status();
  const int64_t columns = weights_[index].columns;
  const uint64_t row_bytes = static_cast<uint64_t>(columns) * sizeof(float);
  const auto first = static_cast<int64_t>(first_byte / row_bytes);
  const auto end = static_cast<int64_t>((first_byte + out.size() + row_bytes - 1) / row_bytes);
  const bool whole_rows = first_byte % row_bytes == 0 && out.size() % row_bytes == 0;
  if (whole_rows && reinterpret_cast<uintptr_t>(out.data()) % alignof(float) == 0) {
    (*rows)->Dequantize(first, end - first, reinterpret_cast<float*>(out.data()));
    return absl::OkStatus();
  }
  std::vector<float> values(static_cast<size_t>((end - first) * columns));
  (*rows)->Dequantize(first, end - first, values.data());
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  std::memcpy(out.data(), bytes + (first_byte - static_cast<uint64_t>(first) * row_bytes), out.size());
  return absl::OkStatus();
}

absl::Status IntegerTensors::ReadDerivedCodes(size_t index, int64_t first_row, int64_t num_rows, CodedRows* out) const {
  const absl::StatusOr<std::shared_ptr<const IntegerRows>> rows = RowsOf(index);
  if (!rows.ok()) return rows.status();
  (*rows)->ReadCodes(*codes_[index].traits, first_row, num_rows, out);
  return absl::OkStatus();
}

}  // namespace dunlin::engine
