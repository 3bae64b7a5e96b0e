// SPDX-License-Identifier: Apache-2.0
// Files of torch.save: the tensors are those of the safetensors checkpoints they were made from, and archives and
// pickles that are broken or would run code are refused.
#include "engine/model/checkpoint/torch/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/load/opened_model.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/torch/zip_writer.h"

namespace dunlin::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kGoldens = DUNLIN_SOURCE_DIR "/tests/golden/";

std::unique_ptr<Checkpoint> OpenCheckpoint(const std::string& path) {
  auto checkpoint = Checkpoint::Open(*Directory::Open(path));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return checkpoint.ok() ? *std::move(checkpoint) : nullptr;
}

std::string BytesOf(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::string bytes(tensor.end - tensor.begin, '\0');
  EXPECT_TRUE(checkpoint.Read(tensor, 0, std::as_writable_bytes(std::span(bytes))).ok());
  return bytes;
}

TEST(TorchFiles, HaveTheTensorsOfTheSafetensorsFiles) {
  for (const std::string name : {"llama_tied", "qwen3_qk_norm", "nanogpt_tiny"}) {
    SCOPED_TRACE(name);
    const auto torch = OpenCheckpoint(kGoldens + "torch/" + name);
    const auto safetensors = OpenCheckpoint(kGoldens + "models/" + name);
    ASSERT_TRUE(torch != nullptr && safetensors != nullptr);
    for (const TensorInfo* expected : safetensors->List()) {
      const TensorInfo* tensor = torch->Find(expected->name);
      ASSERT_NE(tensor, nullptr) << expected->name;
      EXPECT_EQ(tensor->dtype, expected->dtype);
      EXPECT_EQ(tensor->shape, expected->shape);
      EXPECT_EQ(BytesOf(*torch, *tensor), BytesOf(*safetensors, *expected)) << expected->name;
    }
  }
}

TEST(TorchFiles, OpenAsModels) {
  for (const std::string name : {"llama_tied", "qwen3_qk_norm", "nanogpt_tiny"}) {
    ModelSource source;
    source.path = kGoldens + "torch/" + name;
    const auto opened = OpenModelSource(source, true);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(opened->parsed.warnings.empty()) << opened->parsed.warnings.front();
    source.path = kGoldens + "models/" + name;
    const auto expected = OpenModelSource(source, true);
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(opened->parsed.config.hidden_dim, expected->parsed.config.hidden_dim);
    EXPECT_EQ(opened->parsed.config.architecture, expected->parsed.config.architecture);
    EXPECT_EQ(opened->parsed.config.max_context, expected->parsed.config.max_context);
    EXPECT_EQ(opened->parsed.config.attention.qkv_bias, expected->parsed.config.attention.qkv_bias);
  }
}

std::string Refusal(const std::string& bytes) {
  const TempDirectory temp;
  temp.Write("ckpt.pt", bytes);
  const auto file = OpenTorchFile(*Directory::Open(temp.path()), "ckpt.pt");
  EXPECT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
  return std::string(file.status().message());
}

std::string Text(const std::string& text) {
  return "X" + std::string(1, static_cast<char>(text.size())) + std::string(3, '\0') + text;
}

std::string Integers(const std::vector<uint8_t>& numbers) {
  std::string tuple = "(";
  for (const uint8_t number : numbers) tuple += std::string("K") + static_cast<char>(number);
  return tuple + "t";
}

// {"w": a float tensor of that offset, shape and strides in storage "0"}
std::string TensorPickle(uint8_t offset, const std::vector<uint8_t>& shape, const std::vector<uint8_t>& strides,
                         const std::string& storage = "0", const std::string& type = "ctorch\nFloatStorage\n") {
  return "\x80\x02}" + Text("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + Text("storage") + type + Text(storage) +
         Text("cpu") + "K\x04tQK" + static_cast<char>(offset) + Integers(shape) + Integers(strides) +
         "\x89"
         "ccollections\nOrderedDict\n)RtRs.";
}

TEST(TorchFiles, ReadsATensorOfAPickleByHand) {
  const TempDirectory temp;
  temp.Write("ckpt.pt", TorchBytes(TensorPickle(1, {1, 2}, {9, 1}), std::string(16, '\1')));
  const auto file = OpenTorchFile(*Directory::Open(temp.path()), "ckpt.pt");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 1U);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(file->tensors()[0].end - file->tensors()[0].begin, 8U);
}

TEST(TorchFiles, RefuseWhatWouldRunCode) {
  EXPECT_THAT(Refusal(TorchBytes("\x80\x02"
                                 "cos\nsystem\n(" +
                                     Text("id") + "tR.",
                                 "")),
              HasSubstr("ckpt.pt: pickle: names 'os.system', which is not among the names of tensors"));
  EXPECT_THAT(Refusal(TorchBytes("\x80\x02"
                                 "cbuiltins\neval\n.",
                                 "")),
              HasSubstr("names 'builtins.eval'"));
  EXPECT_THAT(Refusal(TorchBytes("(ios\nsystem\n.", "")), HasSubstr("has opcode 0x69"));           // INST
  EXPECT_THAT(Refusal(TorchBytes(")\x81.", "")), HasSubstr("has opcode 0x81"));                    // NEWOBJ
  EXPECT_THAT(Refusal(TorchBytes(Text("os") + Text("system") + "\x93.", "")), HasSubstr("0x93"));  // STACK_GLOBAL
  EXPECT_THAT(Refusal(TorchBytes("ccollections\nOrderedDict\n(K\1tR.", "")),
              HasSubstr("calls 'collections.OrderedDict' with other arguments"));
  EXPECT_THAT(Refusal(TorchBytes(Text("a") + ")R.", "")), HasSubstr("calls ''"));
}

TEST(TorchFiles, RefuseTensorsOutsideTheirStorage) {
  const std::string storage(16, '\1');
  const auto refusal = [&](const std::string& pickle) { return Refusal(TorchBytes(pickle, storage)); };
  EXPECT_THAT(refusal(TensorPickle(0, {5}, {1})), HasSubstr("tensor 'w' does not lie inside its storage of 16 bytes"));
  EXPECT_THAT(refusal(TensorPickle(3, {2}, {1})), HasSubstr("does not lie inside its storage"));
  EXPECT_THAT(refusal(TensorPickle(0, {2, 2}, {1, 2})), HasSubstr("is not contiguous"));
  EXPECT_THAT(refusal(TensorPickle(0, {2, 2}, {1})), HasSubstr("is not described as torch.save does"));
  EXPECT_THAT(refusal(TensorPickle(0, {4}, {1}, "1")), HasSubstr("entry 'archive/data/1' is missing"));
  EXPECT_THAT(refusal(TensorPickle(0, {4}, {1}, "0", "ccollections\nOrderedDict\n")),
              HasSubstr("has a storage that is"));
  EXPECT_THAT(refusal(TensorPickle(0, std::vector<uint8_t>(12, 255), std::vector<uint8_t>(12, 0))),
              HasSubstr("is not described as torch.save does"));
}

TEST(TorchFiles, RefusePicklesThatAreBroken) {
  const auto refusal = [](const std::string& pickle) { return Refusal(TorchBytes(pickle, "")); };
  EXPECT_THAT(refusal("\x80\x02}."), HasSubstr("has no state dictionary"));
  EXPECT_THAT(refusal(""), HasSubstr("pickle: is cut short at byte 0"));
  EXPECT_THAT(refusal("X\xFF\xFF\xFF\xFF"), HasSubstr("is cut short"));
  EXPECT_THAT(refusal("ctorch"), HasSubstr("is cut short"));
  EXPECT_THAT(refusal("t."), HasSubstr("takes a mark that is not there"));
  EXPECT_THAT(refusal("s."), HasSubstr("takes a value that is not there"));
  EXPECT_THAT(refusal("(K\1s."), HasSubstr("takes a value that is not there"));
  EXPECT_THAT(refusal("h\7."), HasSubstr("recalls what was not remembered"));
  EXPECT_THAT(refusal("\x80\x09."), HasSubstr("has an unknown protocol"));
  EXPECT_THAT(refusal("\x8A\x09"
                      "123456789."),
              HasSubstr("has an integer of more than 64 bits"));
  EXPECT_THAT(refusal(std::string(5'000'000, 'N') + "."), HasSubstr("has more than 4194304 values"));
  EXPECT_THAT(refusal(std::string("}q\0", 3) + Text("model") + std::string("h\0s.", 4)),
              HasSubstr("has no state dictionary"));  // a cycle
}

TEST(TorchFiles, RefuseArchivesThatAreBroken) {
  const std::string good = TorchBytes(TensorPickle(0, {4}, {1}), std::string(16, '\1'));
  for (size_t size = 0; size < good.size(); ++size) EXPECT_THAT(Refusal(good.substr(0, size)), HasSubstr("ckpt.pt: "));
  EXPECT_THAT(Refusal(ZipBytes({{"archive/data.pkl", "."}}, 8)), HasSubstr("'archive/data.pkl' is compressed"));
  EXPECT_THAT(Refusal(ZipBytes({{"a", ""}})), HasSubstr("it has no data.pkl"));
  EXPECT_THAT(Refusal(ZipBytes({{"a/data.pkl", "N."}, {"a/data.pkl", "N."}})), HasSubstr("has an entry twice"));
  EXPECT_THAT(Refusal(ZipBytes({{"a/data.pkl", "N."}, {"a/byteorder", "big"}})), HasSubstr("is not little-endian"));
  std::ifstream legacy(kGoldens + "torch/gpt2_legacy.bin", std::ios::binary);
  const std::string old((std::istreambuf_iterator<char>(legacy)), std::istreambuf_iterator<char>());
  EXPECT_THAT(Refusal(old), HasSubstr("is no file of torch.save since 1.6"));
}

TEST(TorchFiles, SurviveMutations) {
  const std::string good = TorchBytes(TensorPickle(1, {3}, {1}), std::string(16, '\1'));
  std::mt19937_64 random(20261125);
  const TempDirectory temp;
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    temp.Write("ckpt.pt", bytes);
    const auto file = OpenTorchFile(*Directory::Open(temp.path()), "ckpt.pt");
    if (!file.ok()) {
      ASSERT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument) << file.status();
      continue;
    }
    ++taken;
    for (const TensorInfo& tensor : file->tensors()) ASSERT_LE(tensor.end, bytes.size());
  }
  EXPECT_GT(taken, 0);  // a changed checksum or element leaves a valid file
}

TEST(NanoGptFile, SaysWhatItLacks) {
  const TempDirectory temp;
  temp.Write("ckpt.pt", TorchBytes(TensorPickle(0, {4}, {1}), std::string(16, '\1')));
  const auto config = ReadNanoGptConfig(*Directory::Open(temp.path()), "ckpt.pt");
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("ckpt.pt: has no model_args"));
}

}  // namespace
}  // namespace dunlin::engine
