// SPDX-License-Identifier: Apache-2.0
// A set of named tensors: a checkpoint on disk or a generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/page_buffer.h"
#include "engine/model/checkpoint/coded_rows.h"
#include "engine/model/checkpoint/tensor_dtype.h"

namespace dunlin::engine {

struct TensorInfo {
  std::string name;
  const TensorDType* dtype = nullptr;  // never null once parsed
  std::vector<int64_t> shape;          // row-major; {} is a scalar
  uint64_t begin = 0;                  // bytes, from the start of its file's data
  uint64_t end = 0;                    // end - begin == product(shape) * dtype->bits / 8
  int32_t file_index = 0;              // offsets are comparable within one file
};

// Thread rule: const member functions may be called from any thread.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // The tensor of that name, owned by the source, or null.
  virtual const TensorInfo* Find(std::string_view name) const = 0;
  // Copies bytes [first_byte, first_byte + out.size()) of a tensor of this source. DATA_LOSS when they cannot be read.
  virtual absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const = 0;
  // For bytes that are read only once: copies `bytes` bytes from `first_byte` of a tensor into `buffer` and returns
  // where they start. The range may extend into the tensors that follow in the same file. DATA_LOSS when they cannot be
  // read, RESOURCE_EXHAUSTED when there is no memory for the buffer.
  virtual absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                              PageBuffer* buffer) const = 0;
  // The codes that a matrix of this source is stored as, where it can give them; none: its values alone.
  virtual std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& /*tensor*/) const { return std::nullopt; }
  // Copies the codes of rows [first_row, first_row + num_rows). REQUIRES: CodesOf(tensor). DATA_LOSS when they cannot
  // be read.
  virtual absl::Status ReadCodes(const TensorInfo& tensor, int64_t /*first_row*/, int64_t /*num_rows*/,
                                 CodedRows* /*out*/) const {
    return absl::UnimplementedError(tensor.name);
  }
  // Why products cannot have the integer codes that a matrix is stored as; empty: CodesOf gives them, or it has none.
  virtual std::string WhyNoCodes(const TensorInfo& /*tensor*/) const { return ""; }
  // The name of the file that holds a tensor of this source, for messages.
  virtual std::string FileOf(const TensorInfo& tensor) const = 0;
  // DATA_LOSS when a file changed since it was opened, so that the data read may be inconsistent. Called after the last
  // read.
  virtual absl::Status CheckUnchanged() const = 0;
  // Every tensor, in no particular order.
  virtual std::vector<const TensorInfo*> List() const = 0;
};

// "[2, 3]", for messages.
std::string ShapeText(std::span<const int64_t> shape);

// TensorSource::ReadOnce of sources that make the bytes: by Read, into the buffer.
absl::StatusOr<std::byte*> ReadIntoBuffer(const TensorSource& source, const TensorInfo& tensor, uint64_t first_byte,
                                          size_t bytes, PageBuffer* buffer);

}  // namespace dunlin::engine
