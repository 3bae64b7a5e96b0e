// SPDX-License-Identifier: Apache-2.0
// What is written is read back by the checkpoint reader.
#include "tools/quantize/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/model/checkpoint/checkpoint.h"
#include "tests/engine/base/temp_directory.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> Bytes(size_t count, int first) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return bytes;
}

void ExpectTensor(const Checkpoint& checkpoint, const char* name, const std::vector<std::byte>& expected) {
  const TensorInfo* tensor = checkpoint.Find(name);
  ASSERT_NE(tensor, nullptr) << name;
  std::vector<std::byte> bytes(tensor->end - tensor->begin);
  ASSERT_TRUE(checkpoint.Read(*tensor, 0, bytes).ok());
  EXPECT_EQ(bytes, expected) << name;
}

TEST(SafetensorsWriter, TensorsMayBeWrittenInAnyOrder) {
  const TempDirectory temp;
  auto writer = SafetensorsWriter::Create(temp.path(), {{"a", "I32", {2, 2}, 16}, {"b", "BF16", {3}, 6}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE(writer->Write("b", 0, Bytes(6, 100)).ok());
  const std::vector<std::byte> a = Bytes(16, 1);
  EXPECT_TRUE(writer->Write("a", 10, std::span(a).subspan(10)).ok());
  EXPECT_TRUE(writer->Write("a", 0, std::span(a).first(10)).ok());
  EXPECT_FALSE(std::filesystem::exists(temp.File("model.safetensors")));
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(writer->total_bytes(), 22U);
  const auto directory = Directory::Open(temp.path());
  const auto checkpoint = Checkpoint::Open(*directory);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectTensor(**checkpoint, "a", a);
  ExpectTensor(**checkpoint, "b", Bytes(6, 100));
}

TEST(SafetensorsWriter, LargeCheckpointsAreSharded) {
  const TempDirectory temp;
  auto writer = SafetensorsWriter::Create(
      temp.path(), {{"a", "U8", {30}, 30}, {"b", "U8", {30}, 30}, {"c", "U8", {90}, 90}, {"d", "U8", {5}, 5}}, 64);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const auto& [name, bytes] :
       {std::pair("a", 30U), std::pair("b", 30U), std::pair("c", 90U), std::pair("d", 5U)}) {
    EXPECT_TRUE(writer->Write(name, 0, Bytes(bytes, name[0])).ok());
  }
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(std::filesystem::exists(temp.File("model-00003-of-00003.safetensors")));
  const auto directory = Directory::Open(temp.path());
  const auto checkpoint = Checkpoint::Open(*directory);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectTensor(**checkpoint, "c", Bytes(90, 'c'));
  ExpectTensor(**checkpoint, "d", Bytes(5, 'd'));
}

TEST(SafetensorsWriter, WhatIsNotFinishedLeavesNoFile) {
  const TempDirectory temp;
  {
    auto writer = SafetensorsWriter::Create(temp.path(), {{"a", "U8", {4}, 4}});
    ASSERT_TRUE(writer.ok()) << writer.status();
  }
  EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
}

TEST(SafetensorsWriter, AFolderThatIsNotThereIsNamed) {
  const TempDirectory temp;
  const auto writer = SafetensorsWriter::Create(temp.File("missing"), {{"a", "U8", {4}, 4}});
  EXPECT_EQ(writer.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr("missing/model.safetensors.part cannot be written"));
}

}  // namespace
}  // namespace dunlin::engine
