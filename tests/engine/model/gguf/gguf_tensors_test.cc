// SPDX-License-Identifier: Apache-2.0
// Reading tensors: any range of any form, rows that change places, and files of several parts.
#include "engine/model/checkpoint/gguf/gguf_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/model/checkpoint/expert_tensors.h"
#include "engine/model/load/gguf_model.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/gguf/gguf_writer.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

// Blocks of Q8_0 with scale 1: element i has value i % 100.
std::string Q8Blocks(uint64_t elements) {
  std::string bytes;
  for (uint64_t i = 0; i < elements; ++i) {
    if (i % 32 == 0) bytes += std::string("\x00\x3C", 2);  // 1.0 as FP16
    bytes += static_cast<char>(i % 100);
  }
  return bytes;
}

std::string FloatBytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::unique_ptr<GgufTensors> OpenBytes(const TempDirectory& temp, const std::string& bytes) {
  temp.Write("model.gguf", bytes);
  auto tensors = OpenGguf(temp.File("model.gguf"));
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  return tensors.ok() ? *std::move(tensors) : nullptr;
}

std::vector<float> ReadFloats(const GgufTensors& tensors, const std::string& name, uint64_t first, size_t count) {
  std::vector<float> values(count);
  const absl::Status read =
      tensors.Read(*tensors.Find(name), first * sizeof(float), std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(read.ok()) << read;
  return values;
}

TEST(GgufTensors, ReadAnyRangeOfAQuantisedTensor) {
  const TempDirectory temp;
  GgufWriter writer;
  writer.AddTensor({.name = "q", .dimensions = {64, 5}, .type = 8, .data = Q8Blocks(320)});
  const auto tensors = OpenBytes(temp, writer.Bytes());
  ASSERT_NE(tensors, nullptr);
  const TensorInfo* info = tensors->Find("q");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->shape, (std::vector<int64_t>{5, 64}));
  EXPECT_EQ(info->end - info->begin, 320 * sizeof(float));
  for (const auto& [first, count] : std::vector<std::pair<uint64_t, size_t>>{{0, 320}, {1, 1}, {63, 2}, {60, 150}}) {
    const std::vector<float> values = ReadFloats(*tensors, "q", first, count);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(values[i], static_cast<float>((first + i) % 100)) << first << " " << i;
  }
}

TEST(GgufTensors, SeparateTheHalvesOfRotatedHeads) {
  const TempDirectory temp;
  // Two heads of four rows of one column; a stored head is (0, 2, 1, 3) of the halves' order.
  const std::vector<float> stored = {0, 2, 1, 3, 4, 6, 5, 7};
  GgufWriter writer;
  writer.AddTensor({.name = "blk.0.attn_q.weight", .dimensions = {1, 8}, .data = FloatBytes(stored)});
  writer.AddTensor({.name = "blk.0.attn_q.bias", .dimensions = {8}, .data = FloatBytes(stored)});
  writer.AddTensor({.name = "blk.0.attn_v.weight", .dimensions = {1, 8}, .data = FloatBytes(stored)});
  const auto tensors = OpenBytes(temp, writer.Bytes());
  ASSERT_NE(tensors, nullptr);
  tensors->SeparateRotationHalves({.head_dim = 4, .rotary_dim = 4, .rows_of_fused = 8});
  const std::vector<float> ordered = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(ReadFloats(*tensors, "blk.0.attn_q.weight", 0, 8), ordered);
  EXPECT_EQ(ReadFloats(*tensors, "blk.0.attn_q.bias", 0, 8), ordered);
  EXPECT_EQ(ReadFloats(*tensors, "blk.0.attn_q.weight", 3, 3), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(ReadFloats(*tensors, "blk.0.attn_v.weight", 0, 8), stored);
}

TEST(GgufTensors, SeparateTheRotatedPartOfHeadsInAFusedMatrix) {
  const TempDirectory temp;
  // One head of Q, one of K and one of V, of six rows; the first four rotate.
  std::vector<float> stored;
  for (const float head : {0.0F, 10.0F, 20.0F}) {
    for (const float row : {0.0F, 2.0F, 1.0F, 3.0F, 4.0F, 5.0F}) stored.push_back(head + row);
  }
  GgufWriter writer;
  writer.AddTensor({.name = "blk.0.attn_qkv.weight", .dimensions = {1, 18}, .data = FloatBytes(stored)});
  writer.AddTensor({.name = "blk.0.attn_qkv.bias", .dimensions = {18}, .data = FloatBytes(stored)});
  const auto tensors = OpenBytes(temp, writer.Bytes());
  ASSERT_NE(tensors, nullptr);
  tensors->SeparateRotationHalves({.head_dim = 6, .rotary_dim = 4, .rows_of_fused = 12});
  const std::vector<float> ordered = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 20, 22, 21, 23, 24, 25};
  EXPECT_EQ(ReadFloats(*tensors, "blk.0.attn_qkv.weight", 0, 18), ordered);
  EXPECT_EQ(ReadFloats(*tensors, "blk.0.attn_qkv.bias", 0, 18), ordered);
}

TEST(GgufTensors, GiveTheCodesOfOneExpertOfAStack) {
  const TempDirectory temp;
  GgufWriter writer;
  writer.AddTensor({.name = "up.weight", .dimensions = {32, 2, 3}, .type = 8, .data = Q8Blocks(192)});
  writer.AddTensor({.name = "up.bias", .dimensions = {2, 3}, .data = FloatBytes({0, 1, 2, 3, 4, 5})});
  auto stored = OpenBytes(temp, writer.Bytes());
  ASSERT_NE(stored, nullptr);
  const std::vector<ExpertStack> stacks = {{"up.weight", "up.@.weight"}, {"up.bias", "up.@.bias"}};
  const auto experts = ExpertTensors::Open(std::move(stored), stacks, 3);
  ASSERT_TRUE(experts.ok()) << experts.status();
  const TensorInfo* third = (*experts)->Find("up.2.weight");
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(third->shape, (std::vector<int64_t>{2, 32}));
  ASSERT_TRUE((*experts)->CodesOf(*third).has_value());
  CodedRows codes;
  ASSERT_TRUE((*experts)->ReadCodes(*third, 1, 1, &codes).ok());
  std::vector<float> values(32);
  codes.Dequantize(values.data());
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], static_cast<float>((160 + i) % 100)) << i;
  const TensorInfo* bias = (*experts)->Find("up.1.bias");
  ASSERT_NE(bias, nullptr);
  EXPECT_EQ(bias->shape, (std::vector<int64_t>{2}));
  EXPECT_FALSE((*experts)->CodesOf(*bias).has_value());
  float two[2];
  ASSERT_TRUE((*experts)->Read(*bias, 0, std::as_writable_bytes(std::span(two))).ok());
  EXPECT_EQ(two[0], 2.0F);
}

TEST(GgufTensors, KeepAMatrixOfOneRowAMatrix) {
  const TempDirectory temp;
  GgufWriter writer;
  for (const char* name : {"blk.0.ffn_gate_inp_shexp.weight", "token_types.weight", "output_norm.weight"}) {
    writer.AddTensor({.name = name, .dimensions = {2}, .data = FloatBytes({1, 2})});
  }
  const auto tensors = OpenBytes(temp, writer.Bytes());
  ASSERT_NE(tensors, nullptr);
  EXPECT_EQ(tensors->Find("blk.0.ffn_gate_inp_shexp.weight")->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(tensors->Find("token_types.weight")->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(tensors->Find("output_norm.weight")->shape, (std::vector<int64_t>{2}));
}

std::string Part(uint32_t index, uint32_t count, uint32_t num_tensors, const std::string& tensor) {
  GgufWriter writer;
  writer.AddUnsigned("split.no", index).AddUnsigned("split.count", count);
  writer.AddUnsigned("split.tensors.count", num_tensors);
  writer.AddTensor({.name = tensor, .dimensions = {1}, .data = FloatBytes({static_cast<float>(index)})});
  return writer.Bytes();
}

TEST(GgufTensors, JoinTheFilesOfASplit) {
  const TempDirectory temp;
  for (uint32_t i = 0; i < 3; ++i) {
    temp.Write("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", Part(i, 3, 3, "t" + std::to_string(i)));
  }
  const auto tensors = OpenGguf(temp.File("m-00001-of-00003.gguf"));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(ReadFloats(**tensors, "t2", 0, 1), (std::vector<float>{2}));
  EXPECT_EQ((*tensors)->FileOf(*(*tensors)->Find("t1")), "m-00002-of-00003.gguf");
  EXPECT_EQ((*tensors)->List().size(), 3U);
}

TEST(GgufTensors, RefuseASplitThatDoesNotAddUp) {
  const auto refusal = [](const std::string& first_name, const std::string& first, const std::string& second) {
    const TempDirectory temp;
    temp.Write(first_name, first);
    if (!second.empty()) temp.Write("m-00002-of-00002.gguf", second);
    const auto tensors = OpenGguf(temp.File(first_name));
    EXPECT_FALSE(tensors.ok());
    return std::string(tensors.status().message());
  };
  const std::string name = "m-00001-of-00002.gguf";
  EXPECT_THAT(refusal(name, Part(0, 2, 2, "a"), ""), HasSubstr("m-00002-of-00002.gguf: No such file"));
  EXPECT_THAT(refusal(name, Part(1, 2, 2, "a"), ""), HasSubstr("is part 2 of 2; give the first part"));
  EXPECT_THAT(refusal("m.gguf", Part(0, 2, 2, "a"), ""), HasSubstr("its name does not end in -00001-of-00002.gguf"));
  EXPECT_THAT(refusal(name, Part(0, 2, 2, "a"), Part(0, 2, 2, "a")), HasSubstr("says that it is split.no 0 of 2"));
  EXPECT_THAT(refusal(name, Part(0, 2, 2, "a"), Part(1, 2, 2, "a")), HasSubstr("tensor 'a' is in"));
  EXPECT_THAT(refusal(name, Part(0, 2, 5, "a"), Part(1, 2, 5, "b")), HasSubstr("split.tensors.count is 5; the parts"));
  EXPECT_THAT(refusal(name, Part(0, 100000, 2, "a"), ""), HasSubstr("split.count is 100000; limit is [0, 512]"));
}

TEST(GgufTensors, NoticeThatAFileChanged) {
  const TempDirectory temp;
  const auto tensors = OpenBytes(temp, Part(0, 1, 1, "t"));
  ASSERT_NE(tensors, nullptr);
  EXPECT_TRUE(tensors->CheckUnchanged().ok());
  temp.Write("model.gguf", "GGUF");
  EXPECT_EQ(tensors->CheckUnchanged().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace dunlin::engine
