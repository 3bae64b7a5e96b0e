// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/tensor_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dunlin::engine {

std::string ShapeText(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<std::byte*> ReadIntoBuffer(const TensorSource& source, const TensorInfo& tensor, uint64_t first_byte,
                                          size_t bytes, PageBuffer* buffer) {
  if (!buffer->Reserve(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of tensor ", tensor.name));
  }
  const std::span<std::byte> out = buffer->bytes().first(bytes);
  if (absl::Status status = source.Read(tensor, first_byte, out); !status.ok()) return status;
  return out.data();
}

}  // namespace dunlin::engine
