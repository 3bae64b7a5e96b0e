// SPDX-License-Identifier: Apache-2.0
// Tables of 32- and 64-bit integers as FP32 numbers, in any range of bytes; indices out of range; other tensors.
#include "engine/model/checkpoint/integer_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dunlin::engine {
namespace {

// One tensor of six integers.
class OneTable final : public TensorSource {
 public:
  OneTable(const char* dtype, const std::vector<int64_t>& values) {
    info_.name = "table";
    info_.dtype = FindTensorDType(dtype);
    info_.shape = {3, 2};
    const size_t width = static_cast<size_t>(info_.dtype->bits) / 8;
    for (const int64_t value : values) {
      const size_t at = bytes_.size();
      bytes_.resize(at + width);
      std::memcpy(bytes_.data() + at, &value, width);  // little-endian
    }
    info_.end = bytes_.size();
  }
  const TensorInfo* Find(std::string_view name) const override { return name == info_.name ? &info_ : nullptr; }
  absl::Status Read(const TensorInfo& /*tensor*/, uint64_t first_byte, std::span<std::byte> out) const override {
    std::copy_n(bytes_.begin() + static_cast<int64_t>(first_byte), out.size(), out.begin());
    return absl::OkStatus();
  }
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override {
    return ReadIntoBuffer(*this, tensor, first_byte, bytes, buffer);
  }
  std::string FileOf(const TensorInfo& /*tensor*/) const override { return "file"; }
  absl::Status CheckUnchanged() const override { return absl::OkStatus(); }
  std::vector<const TensorInfo*> List() const override { return {&info_}; }

 private:
  TensorInfo info_;
  std::vector<std::byte> bytes_;
};

std::unique_ptr<TensorSource> TableOf(const char* dtype, const std::vector<int64_t>& values) {
  const std::vector<std::string> names = {"table", "absent"};
  return IntegerTables::Open(std::make_unique<OneTable>(dtype, values), names, 8);
}

TEST(IntegerTables, HaveTheValuesOfTheirIntegers) {
  for (const char* dtype : {"I64", "I32"}) {
    const auto source = TableOf(dtype, {3, 0, 7, 5, 1, 6});
    const TensorInfo* table = source->Find("table");
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(std::string_view(table->dtype->name), "F32");
    EXPECT_EQ(table->shape, (std::vector<int64_t>{3, 2}));
    std::vector<float> values(6);
    ASSERT_TRUE(source->Read(*table, 0, std::as_writable_bytes(std::span(values))).ok());
    EXPECT_EQ(values, (std::vector<float>{3, 0, 7, 5, 1, 6})) << dtype;
    std::vector<std::byte> part(9);
    ASSERT_TRUE(source->Read(*table, 6, part).ok());
    EXPECT_EQ(std::memcmp(part.data(), reinterpret_cast<const std::byte*>(values.data()) + 6, part.size()), 0);
  }
}

TEST(IntegerTables, IndicesOutOfRangeAreRefusedAsTheyAreRead) {
  for (const int64_t bad : {int64_t{8}, int64_t{-1}}) {
    const auto source = TableOf("I64", {3, 0, bad, 5, 1, 6});
    std::vector<float> values(6);
    const absl::Status status = source->Read(*source->Find("table"), 0, std::as_writable_bytes(std::span(values)));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("tensor 'table' has the index " + std::to_string(bad) + "; limit is [0, 7]"),
              std::string_view::npos)
        << status;
  }
}

TEST(IntegerTables, NumbersStayAsTheyAre) {
  const auto source = TableOf("F32", {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(source->Find("table")->file_index, 0) << "the stored tensor";
  EXPECT_EQ(source->Find("absent"), nullptr);
}

}  // namespace
}  // namespace dunlin::engine
