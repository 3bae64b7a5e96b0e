// SPDX-License-Identifier: Apache-2.0
// The reader with a source in memory: every row once, in file order; few reads; errors; early destruction.
#include "engine/model/weights/weight_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

// Byte i of file f's data.
std::byte ByteAt(int32_t file, uint64_t i) {
  return static_cast<std::byte>(i * 7 + i / 251 + static_cast<uint64_t>(file) * 13);
}

class MemorySource final : public TensorSource {
 public:
  void Add(const std::string& name, kernels::DType dtype, std::vector<int64_t> shape, int32_t file, uint64_t begin) {
    TensorInfo info{.name = name, .dtype = &TensorDTypeOf(dtype), .shape = std::move(shape)};
    uint64_t bytes = info.dtype->bits / 8;
    for (const int64_t dimension : info.shape) bytes *= static_cast<uint64_t>(dimension);
    info.begin = begin;
    info.end = begin + bytes;
    info.file_index = file;
    tensors_.emplace(name, info);
  }

  const TensorInfo* Find(std::string_view name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  absl::Status Read(const TensorInfo&, uint64_t, std::span<std::byte>) const override {
    return absl::UnimplementedError("not asked for");
  }
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override {
    if (num_reads_++ == failing_read) return absl::DataLossError("cannot read");
    if (!buffer->Reserve(bytes)) return absl::ResourceExhaustedError("no memory");
    for (size_t i = 0; i < bytes; ++i) {
      buffer->bytes()[i] = ByteAt(tensor.file_index, tensor.begin + first_byte + i);
    }
    return buffer->bytes().data();
  }
  std::string FileOf(const TensorInfo&) const override { return "memory"; }
  absl::Status CheckUnchanged() const override { return absl::OkStatus(); }
  std::vector<const TensorInfo*> List() const override { return {}; }

  int num_reads() const { return num_reads_; }
  int failing_read = -1;

 private:
  std::map<std::string, TensorInfo, std::less<>> tensors_;
  mutable std::atomic<int> num_reads_ = 0;
};

WeightPart Matrix(const std::string& tensor, std::vector<int64_t> shape, int64_t source_row, int64_t num_rows) {
  return {.slot = WeightSlot::kQkv,
          .layer = 0,
          .is_bias = false,
          .transposed = false,
          .tensor = tensor,
          .shape = std::move(shape),
          .row_begin = 0,
          .num_rows = num_rows,
          .source_row = source_row,
          .scaled_rows = 0,
          .scale = 1.0F};
}

WeightPart Vector(const std::string& tensor, int64_t num_rows) {
  WeightPart part = Matrix(tensor, {num_rows}, 0, num_rows);
  part.is_bias = true;
  return part;
}

// `count` square matrices, each in its own file and therefore read separately.
std::vector<WeightPart> AddSquares(int count, int64_t side, MemorySource* source) {
  std::vector<WeightPart> parts;
  for (int i = 0; i < count; ++i) {
    const std::string name = absl::StrCat("t", i);
    source->Add(name, kernels::DType::kBF16, {side, side}, i, 0);
    parts.push_back(Matrix(name, {side, side}, 0, side));
  }
  return parts;
}

// Reads to the end; counts every row of every part, and compares its bytes.
void ReadAll(const MemorySource& source, const std::vector<WeightPart>& parts, std::vector<std::string>* order) {
  std::map<const WeightPart*, std::vector<int>> seen;
  for (const WeightPart& part : parts) seen[&part].resize(static_cast<size_t>(part.num_rows));
  WeightReader reader(source, parts);
  while (true) {
    const absl::StatusOr<std::optional<WeightRows>> next = reader.Next();
    ASSERT_TRUE(next.ok()) << next.status();
    if (!next->has_value()) break;
    const WeightRows& rows = **next;
    const TensorInfo& tensor = *source.Find(rows.part->tensor);
    if (order->empty() || order->back() != tensor.name) order->push_back(tensor.name);
    const uint64_t element_bytes = tensor.dtype->bits / 8;
    ASSERT_EQ(reinterpret_cast<uintptr_t>(rows.data) % element_bytes, 0U);
    const int64_t columns = rows.part->is_vector()  ? 1
                            : rows.part->transposed ? rows.part->shape[0]
                                                    : rows.part->shape[1];
    const uint64_t row_bytes = static_cast<uint64_t>(columns) * element_bytes;
    const uint64_t begin = tensor.begin + static_cast<uint64_t>(rows.part->source_row + rows.first_row) * row_bytes;
    for (uint64_t i = 0; i < static_cast<uint64_t>(rows.num_rows) * row_bytes; ++i) {
      ASSERT_EQ(rows.data[i], ByteAt(tensor.file_index, begin + i)) << tensor.name << " " << i;
    }
    for (int64_t row = 0; row < rows.num_rows; ++row) ++seen[rows.part][static_cast<size_t>(rows.first_row + row)];
  }
  for (const auto& [part, counts] : seen) EXPECT_EQ(counts, std::vector<int>(counts.size(), 1)) << part->tensor;
}

TEST(WeightReader, ReadsSmallTensorsTogetherInTheOrderOfTheirFiles) {
  MemorySource source;
  source.Add("b", kernels::DType::kBF16, {3, 5}, 0, 0);
  source.Add("a", kernels::DType::kF32, {4, 2}, 0, 30);  // not aligned to its elements
  source.Add("bias", kernels::DType::kBF16, {7}, 0, 62 + 60'000);
  source.Add("far", kernels::DType::kBF16, {2, 2}, 0, 200'000);
  source.Add("other", kernels::DType::kBF16, {2, 2}, 1, 200'008);
  const std::vector<WeightPart> parts = {Matrix("other", {2, 2}, 0, 2), Vector("bias", 7),
                                         Matrix("far", {2, 2}, 0, 2),   Matrix("a", {4, 2}, 0, 4),
                                         Matrix("b", {3, 5}, 1, 2),     Matrix("b", {3, 5}, 0, 1)};
  std::vector<std::string> order;
  ReadAll(source, parts, &order);
  EXPECT_EQ(order, (std::vector<std::string>{"b", "a", "bias", "far", "other"}));
  EXPECT_EQ(source.num_reads(), 3);  // "far" is beyond the gap limit, "other" in another file
}

TEST(WeightReader, SplitsLargeTensorsIntoRowsAndKeepsTransposedOnesWhole) {
  MemorySource source;
  source.Add("large", kernels::DType::kBF16, {2'000, 10'000}, 0, 0);  // 40 MB
  source.Add("transposed", kernels::DType::kF32, {3'000, 2'000}, 0, 40'000'000);
  std::vector<WeightPart> parts = {Matrix("large", {2'000, 10'000}, 0, 2'000),
                                   Matrix("transposed", {3'000, 2'000}, 0, 2'000)};
  parts[1].transposed = true;
  std::vector<std::string> order;
  ReadAll(source, parts, &order);
  EXPECT_EQ(source.num_reads(), 3 + 1);  // 16 MiB are 838 rows, cut to 768; the transposed one is larger than a block
}

TEST(WeightReader, ReadsOverlappingTensorsSeparately) {
  MemorySource source;
  source.Add("a", kernels::DType::kBF16, {8, 8}, 0, 0);
  const std::vector<WeightPart> parts = {Matrix("a", {8, 8}, 0, 8), Matrix("a", {8, 8}, 0, 8),
                                         Matrix("a", {8, 8}, 4, 4)};
  std::vector<std::string> order;
  ReadAll(source, parts, &order);
  EXPECT_EQ(source.num_reads(), 3);
}

TEST(WeightReader, ReturnsAnErrorAtItsBlockAndFromThenOn) {
  MemorySource source;
  const std::vector<WeightPart> parts = AddSquares(8, 4, &source);
  source.failing_read = 5;
  WeightReader reader(source, parts);
  for (int i = 0; i < 5; ++i) {
    const auto rows = reader.Next();
    ASSERT_TRUE(rows.ok()) << i;
    EXPECT_EQ((*rows)->part, &parts[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(reader.Next().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(reader.Next().status().code(), absl::StatusCode::kDataLoss);
}

TEST(WeightReader, ReadsNoFurtherAheadThanItsBuffers) {
  MemorySource source;
  const std::vector<WeightPart> parts = AddSquares(8, 4, &source);
  WeightReader reader(source, parts);
  const auto rows = reader.Next();
  ASSERT_TRUE(rows.ok());
  while (source.num_reads() < 3) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time for an excess read
  EXPECT_EQ(source.num_reads(), 3);
  for (uint64_t i = 0; i < 32; ++i) EXPECT_EQ((*rows)->data[i], ByteAt(0, i));
}

TEST(WeightReader, MayBeDestroyedAtAnyTime) {
  MemorySource source;
  const std::vector<WeightPart> parts = AddSquares(12, 64, &source);
  for (int taken = 0; taken < 12; ++taken) {
    WeightReader reader(source, parts);
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(reader.Next().ok());
  }
  WeightReader empty(source, {});
  const auto rows = empty.Next();
  ASSERT_TRUE(rows.ok());
  EXPECT_FALSE(rows->has_value());
}

}  // namespace
}  // namespace dunlin::engine
