// SPDX-License-Identifier: Apache-2.0
// Hostile and broken GGUF headers: each is refused with the key or the tensor named, without memory for what it claims.
#include "engine/model/checkpoint/gguf/gguf_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "tests/engine/model/gguf/gguf_writer.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<GgufHeader> ParsedHeader(const std::string& bytes) {
  return ParseGgufHeader(bytes.size(), [&bytes](uint64_t offset, std::span<std::byte> out) {
    EXPECT_LE(offset + out.size(), bytes.size());
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return absl::OkStatus();
  });
}

void ExpectRefused(const std::string& bytes, const std::string& message) {
  const auto header = ParsedHeader(bytes);
  ASSERT_FALSE(header.ok()) << "not refused: " << message;
  EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(header.status().message()), HasSubstr(message));
}

GgufTestTensor Floats(const std::string& name, uint64_t count) {
  return {.name = name, .dimensions = {count}, .data = std::string(count * 4, '\1')};
}

GgufWriter Small() {
  GgufWriter writer;
  writer.AddText("general.architecture", "llama").AddUnsigned("llama.block_count", 2).AddBool("a.flag", true);
  writer.AddTexts("tokenizer.ggml.tokens", {"a", "bc", ""}).AddFloats("tokenizer.ggml.scores", {0, -1, -2});
  writer.AddTensor(Floats("one", 3));
  writer.AddTensor({.name = "two", .dimensions = {32, 2}, .type = 2, .data = std::string(36, '\2')});
  return writer;
}

TEST(GgufHeader, ReadsMetadataAndTensors) {
  size_t header_size = 0;
  const std::string bytes = Small().Bytes(&header_size);
  const auto header = ParsedHeader(bytes);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata.at("llama.block_count").bits, 2U);
  EXPECT_EQ(header->metadata.at("tokenizer.ggml.tokens").count, 3U);
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].name, "one");
  EXPECT_EQ(header->tensors[0].offset, header_size);
  EXPECT_EQ(header->tensors[1].shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(header->tensors[1].bytes, 36U);
}

TEST(GgufHeader, RefusesEveryFileThatIsCutShort) {
  const std::string bytes = Small().Bytes();
  const size_t last = bytes.rfind('\2');
  for (size_t size = 0; size <= last; ++size) {
    const auto header = ParsedHeader(bytes.substr(0, size));
    ASSERT_FALSE(header.ok()) << size;
    EXPECT_THAT(std::string(header.status().message()), HasSubstr("cut short")) << size;
  }
  EXPECT_TRUE(ParsedHeader(bytes.substr(0, last + 1)).ok());
}

TEST(GgufHeader, RefusesOtherFilesAndVersions) {
  ExpectRefused("PK\3\4" + std::string(64, '\0'), "is no GGUF file");
  ExpectRefused("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "is a pointer of Git LFS");
  std::string bytes = Small().Bytes();
  bytes[4] = 1;
  ExpectRefused(bytes, "has GGUF version 1; known are 2 and 3");
  bytes[4] = 0;
  bytes[7] = 3;
  ExpectRefused(bytes, "big-endian");
}

TEST(GgufHeader, RefusesCountsAboveTheLimits) {
  const auto head = [](uint64_t tensors, uint64_t keys) {
    return "GGUF" + LittleEndian(3, 4) + LittleEndian(tensors, 8) + LittleEndian(keys, 8) + std::string(64, '\0');
  };
  ExpectRefused(head(1'000'000, 0), "has 1000000 tensors; limit is 65536");
  ExpectRefused(head(UINT64_MAX, 0), "has 18446744073709551615 tensors");
  ExpectRefused(head(0, 4097), "has 4097 metadata keys; limit is 4096");
}

TEST(GgufHeader, RefusesMetadataThatIsBroken) {
  const auto with = [](GgufType type, const std::string& value) { return GgufWriter().Add("k", type, value).Bytes(); };
  ExpectRefused(with(GgufType::kString, LittleEndian(UINT64_MAX, 8)), "metadata 'k': the file ends");
  ExpectRefused(with(static_cast<GgufType>(13), ""), "metadata 'k': has unknown type 13");
  const std::string deep = LittleEndian(9, 4) + LittleEndian(1, 8) + LittleEndian(9, 4) + LittleEndian(1, 8);
  ExpectRefused(with(GgufType::kArray, deep), "metadata 'k': is an array of arrays");
  ExpectRefused(with(GgufType::kArray, LittleEndian(10, 4) + LittleEndian(UINT64_MAX / 8 + 2, 8)), "size overflows");
  ExpectRefused(with(GgufType::kArray, LittleEndian(8, 4) + LittleEndian(UINT64_MAX, 8)), "the file ends");
  ExpectRefused(GgufWriter().AddUnsigned("k", 1).AddUnsigned("k", 2).Bytes(), "metadata 'k': appears twice");
  ExpectRefused(GgufWriter().AddUnsigned(std::string(300, 'k'), 1).Bytes(), "its name has 300 bytes; limit is 256");
  ExpectRefused(GgufWriter().AddUnsigned("general.alignment", 24).Bytes(), "power of two");
  ExpectRefused(GgufWriter().AddText("general.alignment", "32").Bytes(), "power of two");
}

TEST(GgufHeader, RefusesTensorsThatAreBroken) {
  const auto with = [](GgufTestTensor tensor) { return GgufWriter().AddTensor(std::move(tensor)).Bytes(); };
  ExpectRefused(with({.name = "t", .dimensions = {1, 1, 1, 1, 1}}), "tensor 't': has 5 dimensions; limit is 4");
  ExpectRefused(with({.name = "t", .dimensions = {0}}), "has dimension 0");
  ExpectRefused(with({.name = "t", .dimensions = {uint64_t{1} << 63}}), "has dimension 9223372036854775808");
  const uint64_t large = uint64_t{1} << 31;
  ExpectRefused(with({.name = "t", .dimensions = {large, large, large, 1}}), "size overflows");
  ExpectRefused(with({.name = "t", .dimensions = {4}, .type = 5}), "has unknown type 5");
  ExpectRefused(with({.name = "t", .dimensions = {33}, .type = 2}),
                "rows of 33 elements, no multiple of the 32 of a Q4_0");
  ExpectRefused(with({.name = "t", .dimensions = {1 << 20}}), "it is cut short");
  ExpectRefused(with({.name = "t", .dimensions = {1}, .data = "1234", .offset_error = 4}),
                "no multiple of the alignment");
  ExpectRefused(with({.name = "t", .dimensions = {1}, .data = "1234", .offset_error = UINT64_MAX - 31}), "cut short");
  GgufWriter twice;
  twice.AddTensor(Floats("t", 8)).AddTensor(Floats("t", 8));
  ExpectRefused(twice.Bytes(), "tensor 't' appears twice");
  GgufWriter overlap;
  overlap.AddTensor(Floats("a", 16));
  GgufTestTensor second = Floats("b", 8);
  second.offset_error = static_cast<uint64_t>(-32);
  overlap.AddTensor(second);
  ExpectRefused(overlap.Bytes(), "tensors 'a' and 'b' overlap");
}

TEST(GgufHeader, SurvivesMutations) {
  size_t header_size = 0;
  const std::string good = Small().Bytes(&header_size);
  std::mt19937_64 random(20261125);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) bytes[random() % header_size] = static_cast<char>(random());
    const auto header = ParsedHeader(bytes);
    if (!header.ok()) {
      ASSERT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++taken;
    uint64_t at = 0;
    for (const GgufTensor& tensor : header->tensors) {
      ASSERT_GE(tensor.offset, at);
      at = tensor.offset + tensor.bytes;
    }
    ASSERT_LE(at, bytes.size());
  }
  EXPECT_GT(taken, 0);  // a changed character of a name leaves a valid header
}

}  // namespace
}  // namespace dunlin::engine
