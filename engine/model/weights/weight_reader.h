// SPDX-License-Identifier: Apache-2.0
// Reads the rows of a model's parts in file order on a background thread, so that reading overlaps packing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/base/page_buffer.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

// Rows [first_row, first_row + num_rows) of a part in the tensor's layout: row-major, or column-major where the part is
// transposed. `data` is aligned to the element size.
struct WeightRows {
  const WeightPart* part;
  int64_t first_row;
  int64_t num_rows;
  const std::byte* data;   // null where the codes are given
  const CodedRows* codes;  // the rows' codes, or null
};

// Thread rule: used by one thread; the background thread is internal.
class WeightReader {
 public:
  // Starts reading. Source and parts outlive the reader. codes: parts that have codes are read as these. REQUIRES:
  // every part's tensor is in `source`.
  WeightReader(const TensorSource& source, const std::vector<WeightPart>& parts, bool codes = false);
  ~WeightReader();
  WeightReader(const WeightReader&) = delete;
  WeightReader& operator=(const WeightReader&) = delete;

  // The next rows, valid until the next call; nullopt after the last. Returns every row of every part once. Errors: as
  // TensorSource::ReadOnce, and RESOURCE_EXHAUSTED when the thread could not be started; later calls return them again.
  absl::StatusOr<std::optional<WeightRows>> Next();

 private:
  // Rows that one call of Next returns.
  struct Piece {
    const WeightPart* part;
    const TensorInfo* tensor;
    int64_t first_row;
    int64_t num_rows;
    uint64_t begin;  // bytes, from the start of the tensor's file's data
    uint64_t end;
    bool coded;  // read as codes, in a block of its own
  };
  // Neighbouring pieces that are read with one call.
  struct Block {
    size_t begin_piece;
    size_t end_piece;
    uint64_t begin;  // bytes, as a piece's
    uint64_t end;
  };
  struct Buffer {
    PageBuffer memory;
    std::byte* data = nullptr;  // first byte of the block
    CodedRows codes;            // or its codes
  };
  // One being packed, one ready, one being filled.
  static constexpr size_t kNumBuffers = 3;

  void AddPieces(const WeightPart& part, bool codes);
  void MakeBlocks();
  void ReadBlocks();
  absl::Status ReadBlock(const Block& block, Buffer* buffer) const;
  bool WaitForBuffer(size_t block);
  absl::Status WaitForBlock(size_t block);

  const TensorSource& source_;
  std::vector<Piece> pieces_;  // const once reading begins
  std::vector<Block> blocks_;  // const once reading begins
  std::array<Buffer, kNumBuffers>
      buffers_;  // owned by the thread until num_read_ passes their block, then by the caller

  size_t next_piece_ = 0;           // of the caller
  size_t block_ = 0;                // of the caller
  std::vector<std::byte> aligned_;  // copy of a piece that is not aligned to its elements

  Mutex mutex_;
  CondVar changed_;
  size_t num_read_ ABSL_GUARDED_BY(mutex_) = 0;  // blocks
  size_t num_done_ ABSL_GUARDED_BY(mutex_) = 0;  // blocks that the caller has left
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // of the block after num_read_, where it is not OK
  std::thread thread_;
};

}  // namespace dunlin::engine
