// SPDX-License-Identifier: Apache-2.0
// Seeded random BF16 weights in place of a checkpoint: matrices with mean 0 and standard deviation 0.02, norms 1,
// biases 0. Element i of a tensor depends only on the seed, the tensor's name and i, so the model is the same in any
// read order and on any machine.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

class RandomTensors final : public TensorSource {
 public:
  // One tensor per part, each in its own file.
  RandomTensors(const std::vector<WeightPart>& parts, uint64_t seed);

  const TensorInfo* Find(std::string_view name) const override;
  // REQUIRES: first_byte and out.size() are even.
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  std::string FileOf(const TensorInfo&) const override { return "random"; }
  absl::Status CheckUnchanged() const override { return absl::OkStatus(); }
  std::vector<const TensorInfo*> List() const override;

 private:
  enum class Fill : uint8_t { kNormal, kOne, kZero };
  struct Entry {
    TensorInfo info;
    Fill fill;
    uint64_t stream;  // hash of seed and name
  };
  void FillNormal(uint64_t stream, uint64_t first, size_t count, std::byte* out) const;

  static constexpr size_t kNumValues = 4 * 255 + 1;  // sums of four bytes

  std::map<std::string, Entry, std::less<>> entries_;
  std::array<uint16_t, kNumValues> bf16_values_;  // by sum
};

}  // namespace dunlin::engine
