// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/integer_tables.h"

#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

std::unique_ptr<TensorSource> IntegerTables::Open(std::unique_ptr<TensorSource> stored,
                                                  std::span<const std::string> names, int64_t limit) {
  std::unique_ptr<IntegerTables> tables(new IntegerTables(std::move(stored), limit));
  for (const std::string& name : names) {
    const TensorInfo* tensor = tables->stored().Find(name);
    if (tensor == nullptr || tables->Derives(name)) continue;
    const std::string_view type = tensor->dtype->name;
    if (type != "I32" && type != "I64") continue;
    tables->Derive(name, TensorDTypeOf(kernels::DType::kF32), tensor->shape, *tensor);
  }
  return tables;
}

absl::Status IntegerTables::ReadValues(size_t index, uint64_t first, std::span<float> values) const {
  const TensorInfo& source = Source(index);
  const size_t width = static_cast<size_t>(source.dtype->bits) / 8;
  std::vector<std::byte> bytes(values.size() * width);
  if (absl::Status status = stored().Read(source, first * width, bytes); !status.ok()) return status;
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t value = 0;
    int32_t narrow = 0;
    if (width == sizeof(value)) {
      std::memcpy(&value, bytes.data() + i * width, width);
    } else {
      std::memcpy(&narrow, bytes.data() + i * width, width);
      value = narrow;
    }
    if (value < 0 || value >= limit_) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", source.name, "' has the index ", value, "; limit is [0, ", limit_ - 1, "]"));
    }
    values[i] = static_cast<float>(value);
  }
  return absl::OkStatus();
}

absl::Status IntegerTables::ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const {
  const uint64_t first = first_byte / sizeof(float);
  const uint64_t end = (first_byte + out.size() + sizeof(float) - 1) / sizeof(float);
  std::vector<float> values(end - first);
  if (absl::Status status = ReadValues(index, first, values); !status.ok()) return status;
  std::memcpy(out.data(), reinterpret_cast<const std::byte*>(values.data()) + (first_byte - first * sizeof(float)),
              out.size());
  return absl::OkStatus();
}

}  // namespace dunlin::engine
