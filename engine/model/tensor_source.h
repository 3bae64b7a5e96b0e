// Where named tensors come from: a checkpoint on disk, or a generator. The builder sees this interface alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/page_buffer.h"
#include "engine/model/tensor_dtype.h"

namespace dunlin::engine {

struct TensorInfo {
  std::string name;
  const TensorDType* dtype = nullptr;  // never null once parsed
  std::vector<int64_t> shape;          // row-major; {} is a scalar
  uint64_t begin = 0;                  // bytes, from the start of its file's data
  uint64_t end = 0;                    // end - begin == product(shape) * dtype->bits / 8
  int32_t file_index = 0;              // tensors of different files do not lie together
};

// Thread rule: const functions from any thread.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // The tensor of that name, or null. Lives as long as the source.
  virtual const TensorInfo* Find(std::string_view name) const = 0;
  // Copies bytes [first_byte, first_byte + out.size()) of a tensor of this source. DATA_LOSS when they cannot be read.
  virtual absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const = 0;
  // Bytes that are wanted once, from `first_byte` of a tensor of this source on; where tensors lie in one file, they
  // may run on into those that follow. Returns where in `buffer` they begin. DATA_LOSS when they cannot be read,
  // RESOURCE_EXHAUSTED when there is no memory for the buffer.
  virtual absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                              PageBuffer* buffer) const = 0;
  // The name of the file that holds a tensor of this source, for messages.
  virtual std::string FileOf(const TensorInfo& tensor) const = 0;
  // DATA_LOSS when what was read may be a mixture of two states. Asked once, after the last Read.
  virtual absl::Status CheckUnchanged() const = 0;
  // Every tensor, in no particular order.
  virtual std::vector<const TensorInfo*> List() const = 0;
};

}  // namespace dunlin::engine
