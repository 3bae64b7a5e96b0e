// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/merged_columns.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::StatusOr<std::unique_ptr<TensorSource>> MergedColumns::Open(std::unique_ptr<TensorSource> stored,
                                                                  const std::vector<std::string>& names,
                                                                  int64_t patches) {
  std::unique_ptr<MergedColumns> merged(new MergedColumns(std::move(stored), patches));
  for (const std::string& name : names) {
    if (absl::Status status = merged->Add(name); !status.ok()) return status;
  }
  return merged;
}

absl::Status MergedColumns::Add(const std::string& name) {
  const TensorInfo* tensor = stored().Find(name);
  if (tensor == nullptr) return absl::OkStatus();
  if (tensor->shape.size() != 2 || tensor->shape[1] % static_cast<int64_t>(patches_) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' has shape ", ShapeText(tensor->shape),
                                                   "; its columns are those of ", patches_, " patches"));
  }
  if (tensor->dtype->bits % 8 != 0 || tensor->dtype->loadable == kernels::DType::kF8E4M3) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' is ", tensor->dtype->name, "; of merged patches wider dtypes are loaded"));
  }
  Derive(name, *tensor->dtype, tensor->shape, *tensor);
  return absl::OkStatus();
}

// Whole rows are read, and their elements picked.
absl::Status MergedColumns::ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const {
  const TensorInfo& tensor = Info(index);
  const uint64_t size = tensor.dtype->bits / 8;
  const auto columns = static_cast<uint64_t>(tensor.shape[1]);
  const uint64_t features = columns / patches_;
  const uint64_t row_bytes = columns * size;
  const uint64_t begin = first_byte / row_bytes * row_bytes;
  const uint64_t end = (first_byte + out.size() + row_bytes - 1) / row_bytes * row_bytes;
  std::vector<std::byte> rows(end - begin);
  if (absl::Status status = stored().Read(Source(index), begin, rows); !status.ok()) return status;
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t at = first_byte + done - begin;
    const uint64_t column = at % row_bytes / size;
    const uint64_t in_element = at % size;
    const uint64_t stored_column = column % features * patches_ + column / features;
    const uint64_t count = std::min(size - in_element, uint64_t{out.size() - done});
    std::memcpy(out.data() + done, rows.data() + at / row_bytes * row_bytes + stored_column * size + in_element, count);
    done += count;
  }
  return absl::OkStatus();
}

std::string MergedColumns::WhyNoDerivedCodes(size_t index) const {
  return stored().CodesOf(Source(index)).has_value() ? "its columns change places" : stored().WhyNoCodes(Source(index));
}

}  // namespace dunlin::engine
