// Reads the rows of a model's parts, in the order in which the files hold them, by a thread of its own: while some are
// packed, the next ones come from the disk.
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
#include "engine/model/tensor_source.h"
#include "engine/model/weight_parts.h"

namespace dunlin::engine {

// Rows [first_row, first_row + num_rows) of a part, as its tensor has them: row-major, or column by column where the
// part is transposed. `data` is aligned to an element.
struct WeightRows {
  const WeightPart* part;
  int64_t first_row;
  int64_t num_rows;
  const std::byte* data;
};

// Thread rule: belongs to one thread, its own aside.
class WeightReader {
 public:
  // Reads from now on. Both arguments outlive the reader. REQUIRES: every part's tensor is in `source`.
  WeightReader(const TensorSource& source, const std::vector<WeightPart>& parts);
  ~WeightReader();
  WeightReader(const WeightReader&) = delete;
  WeightReader& operator=(const WeightReader&) = delete;

  // The next rows, good until the next call; nothing after the last ones. Every row of every part comes once. Errors
  // are those of TensorSource::ReadOnce, and RESOURCE_EXHAUSTED where no thread could be had; they come again when
  // asked again.
  absl::StatusOr<std::optional<WeightRows>> Next();

 private:
  // Rows that are handed out together.
  struct Piece {
    const WeightPart* part;
    const TensorInfo* tensor;
    int64_t first_row;
    int64_t num_rows;
    uint64_t begin;  // bytes, from the start of the tensor's file's data
    uint64_t end;
  };
  // Pieces that lie together and are read as one.
  struct Block {
    size_t begin_piece;
    size_t end_piece;
    uint64_t begin;  // bytes, as a piece's
    uint64_t end;
  };
  struct Buffer {
    PageBuffer memory;
    std::byte* data = nullptr;  // where the block begins
  };
  // One is packed, one waits, one is filled.
  static constexpr size_t kNumBuffers = 3;

  void AddPieces(const WeightPart& part);
  void MakeBlocks();
  void ReadBlocks();
  bool WaitForBuffer(size_t block);
  absl::Status WaitForBlock(size_t block);

  const TensorSource& source_;
  std::vector<Piece> pieces_;                // const once reading begins
  std::vector<Block> blocks_;                // const once reading begins
  std::array<Buffer, kNumBuffers> buffers_;  // of blocks: the reader's until num_read_ passes them, then the caller's

  size_t next_piece_ = 0;           // of the caller
  size_t block_ = 0;                // of the caller
  std::vector<std::byte> aligned_;  // a piece that lies at an odd place

  Mutex mutex_;
  CondVar changed_;
  size_t num_read_ ABSL_GUARDED_BY(mutex_) = 0;  // blocks
  size_t num_done_ ABSL_GUARDED_BY(mutex_) = 0;  // blocks that the caller has left
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // of the block after num_read_, where it is not OK
  std::thread thread_;
};

}  // namespace dunlin::engine
