// SPDX-License-Identifier: Apache-2.0
// The tensors of a GGUF model, one file or split, under the file's own names. Floats are given as stored; quantised
// blocks are dequantised to FP32 as they are read. Rows of Q and K whose rotation pairs are stored interleaved (Llama)
// are given in the halves that transformers' checkpoints have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/model/checkpoint/gguf/gguf_file.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

class GgufTensors final : public TensorSource {
 public:
  // Takes `first` and opens the files that follow it: split.count of them, NAME-00001-of-00003.gguf and so on, in
  // `directory`. NOT_FOUND: one is missing. INVALID_ARGUMENT, naming the file: `first` is not the first, a file says it
  // is another part, the parts have another number of tensors than split.tensors.count, or a tensor appears twice.
  static absl::StatusOr<std::unique_ptr<GgufTensors>> Open(const Directory& directory, GgufFile first);

  // Heads whose first rows rotate. All counts > 0; rotary_dim <= head_dim, even.
  struct RotatedHeads {
    int64_t head_dim;
    int64_t rotary_dim;
    int64_t rows_of_fused;  // of *.attn_qkv.*: those of Q and K
  };
  // Gives the rows of every tensor named *.attn_q.*, *.attn_k.* and *.attn_qkv.* with the two halves of each head's
  // rotated part one after the other: row 2 i + j becomes row i + j * rotary_dim / 2. Call once, before reading.
  void SeparateRotationHalves(const RotatedHeads& heads);

  const GgufFile& first() const { return files_.front(); }

  const TensorInfo* Find(std::string_view name) const override;
  absl::Status Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const override;
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override;
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo& tensor) const override;
  absl::Status ReadCodes(const TensorInfo& tensor, int64_t first_row, int64_t num_rows, CodedRows* out) const override;
  std::string FileOf(const TensorInfo& tensor) const override;
  absl::Status CheckUnchanged() const override;
  std::vector<const TensorInfo*> List() const override;

 private:
  struct Entry {
    TensorInfo info;  // file_index: the tensor's own, in the order of the data
    const GgufTensor* stored;
    size_t file;
    RotatedHeads heads = {};  // whose halves are separated; head_dim 0: rows are given as stored
    int64_t rotated_rows = 0;

    // The row of the file that is given as row `row`.
    uint64_t StoredRow(uint64_t row) const;
  };

  GgufTensors() = default;
  absl::Status OpenOthers(const Directory& directory);
  absl::Status ListTensors();
  const Entry& EntryOf(const TensorInfo& tensor) const;
  static uint64_t RowElements(const Entry& entry);
  // Whether a tensor's bytes are those of the file.
  static bool IsDirect(const Entry& entry) {
    return entry.stored->type->dequantize == nullptr && entry.heads.head_dim == 0;
  }
  absl::Status Convert(const Entry& entry, uint64_t first_byte, std::span<std::byte> out) const;
  // Stored rows that cover rows [first_row, end_row) of the tensor: whole heads, where rows change places.
  struct StoredRows {
    uint64_t first_row;  // of the tensor, as stored
    uint64_t row_bytes;
    const std::byte* bytes;
    PageBuffer memory;
    // Where row `row` of this source is stored.
    const std::byte* Row(const Entry& entry, uint64_t row) const;
  };
  absl::Status ReadStored(const Entry& entry, uint64_t first_row, uint64_t end_row, StoredRows* out) const;

  std::vector<GgufFile> files_;
  std::vector<Entry> entries_;   // by file and offset: index = info.file_index
  std::vector<size_t> by_name_;  // indices of entries_
};

}  // namespace dunlin::engine
