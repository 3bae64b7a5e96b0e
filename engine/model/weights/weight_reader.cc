// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_reader.h"

#include <algorithm>
#include <system_error>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "engine/base/thread_name.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kBlockBytes = int64_t{16} << 20;  // amortises a read's overhead, stays small beside any model
// Of codes, which are a quarter of what they stand for or less: three buffers of them stay in a last-level cache.
constexpr int64_t kCodedBlockBytes = int64_t{4} << 20;
constexpr int64_t kRowMultiple = 192;               // a multiple of 48 and 64, the panel heights of the packed layouts
constexpr uint64_t kGapBytes = uint64_t{64} << 10;  // gaps up to this size are read through rather than split a read

}  // namespace

WeightReader::WeightReader(const TensorSource& source, const std::vector<WeightPart>& parts, bool codes)
    : source_(source) {
  for (const WeightPart& part : parts) AddPieces(part, codes && part.codes.has_value());
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return std::tie(a.tensor->file_index, a.begin) < std::tie(b.tensor->file_index, b.begin);
  });
  MakeBlocks();
  try {
    thread_ = std::thread([this] {
      NameThread("load-weights");
      ReadBlocks();
    });
  } catch (const std::system_error& error) {
    const MutexLock lock(&mutex_);
    status_ = absl::ResourceExhaustedError(absl::StrCat("could not start the weight reader's thread: ", error.what()));
  }
}

WeightReader::~WeightReader() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void WeightReader::AddPieces(const WeightPart& part, bool codes) {
  const TensorInfo& tensor = *source_.Find(part.tensor);
  const int64_t columns = part.is_vector() ? 1 : part.transposed ? part.shape[0] : part.shape[1];
  const int64_t row_bytes = columns * int64_t{tensor.dtype->bits} / 8;
  const int64_t block_bytes = codes ? kCodedBlockBytes : kBlockBytes;
  // A row of a transposed tensor is strided over the whole tensor, so it is one piece.
  const int64_t piece_rows = part.transposed || part.is_vector()
                                 ? part.num_rows
                                 : std::max(block_bytes / row_bytes / kRowMultiple, int64_t{1}) * kRowMultiple;
  for (int64_t row = 0; row < part.num_rows; row += piece_rows) {
    const int64_t num_rows = std::min(piece_rows, part.num_rows - row);
    const uint64_t begin = tensor.begin + static_cast<uint64_t>((part.source_row + row) * row_bytes);
    pieces_.push_back({.part = &part,
                       .tensor = &tensor,
                       .first_row = row,
                       .num_rows = num_rows,
                       .begin = begin,
                       .end = begin + static_cast<uint64_t>(num_rows * row_bytes),
                       .coded = codes});
  }
}

void WeightReader::MakeBlocks() {
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (!blocks_.empty()) {
      Block& last = blocks_.back();
      const bool follows = pieces_[last.begin_piece].tensor->file_index == piece.tensor->file_index &&
                           piece.begin >= last.end && piece.begin - last.end <= kGapBytes;
      const bool values = !piece.coded && !pieces_[last.begin_piece].coded;
      if (values && follows && piece.end - last.begin <= uint64_t{kBlockBytes}) {
        last.end_piece = i + 1;
        last.end = piece.end;
        continue;
      }
    }
    blocks_.push_back({.begin_piece = i, .end_piece = i + 1, .begin = piece.begin, .end = piece.end});
  }
}

absl::Status WeightReader::ReadBlock(const Block& block, Buffer* buffer) const {
  const Piece& first = pieces_[block.begin_piece];
  if (first.coded) {
    return source_.ReadCodes(*first.tensor, first.part->source_row + first.first_row, first.num_rows, &buffer->codes);
  }
  const absl::StatusOr<std::byte*> data = source_.ReadOnce(
      *first.tensor, block.begin - first.tensor->begin, static_cast<size_t>(block.end - block.begin), &buffer->memory);
  if (data.ok()) buffer->data = *data;
  return data.status();
}

void WeightReader::ReadBlocks() {
  for (size_t i = 0; i < blocks_.size() && WaitForBuffer(i); ++i) {
    const absl::Status read = ReadBlock(blocks_[i], &buffers_[i % kNumBuffers]);
    const MutexLock lock(&mutex_);
    status_ = read;
    num_read_ += read.ok() ? 1 : 0;
    changed_.SignalAll();
    if (!read.ok()) return;
  }
}

// Waits until the caller is done with the block that used this buffer before. False: the reader is being destroyed.
bool WeightReader::WaitForBuffer(size_t block) {
  const MutexLock lock(&mutex_);
  while (!stop_ && block >= num_done_ + kNumBuffers) changed_.Wait(&mutex_);
  return !stop_;
}

absl::Status WeightReader::WaitForBlock(size_t block) {
  const MutexLock lock(&mutex_);
  num_done_ = block;
  changed_.SignalAll();
  while (num_read_ <= block && status_.ok()) changed_.Wait(&mutex_);
  return num_read_ > block ? absl::OkStatus() : status_;
}

absl::StatusOr<std::optional<WeightRows>> WeightReader::Next() {
  if (next_piece_ == pieces_.size()) return std::nullopt;
  if (next_piece_ == blocks_[block_].end_piece) ++block_;
  const Block& block = blocks_[block_];
  if (next_piece_ == block.begin_piece) {
    if (absl::Status status = WaitForBlock(block_); !status.ok()) return status;
  }
  const Piece& piece = pieces_[next_piece_++];
  WeightRows rows{
      .part = piece.part, .first_row = piece.first_row, .num_rows = piece.num_rows, .data = nullptr, .codes = nullptr};
  const Buffer& buffer = buffers_[block_ % kNumBuffers];
  if (piece.coded) {
    rows.codes = &buffer.codes;
    return rows;
  }
  const std::byte* data = buffer.data + (piece.begin - block.begin);
  if (reinterpret_cast<uintptr_t>(data) % (piece.tensor->dtype->bits / 8) != 0) {
    aligned_.assign(data, data + (piece.end - piece.begin));
    data = aligned_.data();
  }
  rows.data = data;
  return rows;
}

}  // namespace dunlin::engine
