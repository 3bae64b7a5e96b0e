// Where named tensors come from: a checkpoint on disk, or a generator. The builder sees this interface alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/tensor_dtype.h"

namespace dunlin::engine {

struct TensorInfo {
  std::string name;
  const TensorDType* dtype = nullptr;  // never null once parsed
  std::vector<int64_t> shape;          // row-major; {} is a scalar
  uint64_t begin = 0;                  // bytes, from the start of its file's data
  uint64_t end = 0;                    // end - begin == product(shape) * dtype->bits / 8
  int32_t file_index = 0;
};

// Thread rule: one thread.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // The tensor of that name, or null. Lives as long as the source.
  virtual const TensorInfo* Find(std::string_view name) const = 0;
  // Copies bytes [first_byte, first_byte + out.size()) of a tensor of this source. DATA_LOSS when they cannot be read.
  virtual absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const = 0;
  // The tensor is read soon: a source on disk may fetch it meanwhile.
  virtual void WillRead(const TensorInfo& /*tensor*/) const {}
  // The name of the file that holds a tensor of this source, for messages.
  virtual std::string FileOf(const TensorInfo& tensor) const = 0;
  // DATA_LOSS when what was read may be a mixture of two states. Asked once, after the last Read.
  virtual absl::Status CheckUnchanged() const = 0;
  // Every tensor, in no particular order.
  virtual std::vector<const TensorInfo*> List() const = 0;
};

}  // namespace dunlin::engine
