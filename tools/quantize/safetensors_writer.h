// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint in safetensors files: all names and shapes first, then the tensors' bytes in any order. A file
// has its name only once all of it is written. Source: safetensors 0.8 (8 bytes of header size, JSON header, data);
// Hugging Face's model.safetensors.index.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dunlin::engine {

struct OutputTensor {
  std::string name;
  const char* dtype;  // of tensor_dtype.h: "BF16", "I32"
  std::vector<int64_t> shape;
  uint64_t bytes;
};

// Thread rule: one thread.
class SafetensorsWriter {
 public:
  static constexpr uint64_t kShardBytes = 5'000'000'000;  // Hugging Face's default

  // Creates the files in `directory`, which exists: model.safetensors, or shards of at most `shard_bytes` (more where
  // one tensor has more). INTERNAL when a file cannot be created or has no space: the message names it.
  static absl::StatusOr<SafetensorsWriter> Create(const std::string& directory,
                                                  const std::vector<OutputTensor>& tensors,
                                                  uint64_t shard_bytes = kShardBytes);
  SafetensorsWriter(SafetensorsWriter&&) = default;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();  // removes what Finish has not given its name

  // Writes bytes of a tensor from `first_byte`. REQUIRES: they lie inside a tensor that Create was given.
  absl::Status Write(const std::string& name, uint64_t first_byte, std::span<const std::byte> bytes);

  // Makes the files durable and gives them their names, and writes the index where there are several.
  absl::Status Finish();

  uint64_t total_bytes() const { return total_bytes_; }  // of all tensors

 private:
  struct Shard {
    std::string path;  // without kPartEnding
    int fd = -1;
  };
  struct Place {
    size_t shard;
    uint64_t begin;  // in the file
  };
  SafetensorsWriter() = default;
  absl::Status StartShard(const std::string& path, std::span<const OutputTensor> tensors);

  std::string directory_;
  std::vector<Shard> shards_;
  std::map<std::string, Place> places_;
  uint64_t total_bytes_ = 0;
};

}  // namespace dunlin::engine
