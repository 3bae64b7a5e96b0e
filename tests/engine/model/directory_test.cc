// SPDX-License-Identifier: Apache-2.0
// Incomplete, hostile or half-copied model directories: the error of LoadModel for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "engine/model/load/load_model.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

absl::Status LoadStatus(const std::string& path) {
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  return LoadModel({.path = path, .random_shape = "", .precisions = {Precision::kFp32}}, device.get()).status();
}

std::string Index(const std::string& shard) {
  return R"({"metadata": {}, "weight_map": {"transformer.wte.weight": ")" + shard + R"("}})";
}

// Writes a valid gpt2 directory with two shards and an index, then corrupts it.
struct BadDirectory {
  const char* what;
  std::function<void(const TempDirectory&)> bend;
  absl::StatusCode code;
  const char* message;
};

constexpr const char* kShard1 = "model-00001-of-00002.safetensors";
constexpr const char* kShard2 = "model-00002-of-00002.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

void WriteShards(const TempDirectory& temp) {
  std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
  const auto middle = tensors.begin() + 9;
  temp.Write("config.json", kGpt2Config);
  temp.Write(kShard1, SafetensorsBytes(std::vector<TestTensor>(tensors.begin(), middle)));
  temp.Write(kShard2, SafetensorsBytes(std::vector<TestTensor>(middle, tensors.end())));
  std::string map;
  for (auto tensor = tensors.begin(); tensor != tensors.end(); ++tensor) {
    map += (map.empty() ? "\"" : ", \"") + tensor->name + "\": \"" + (tensor < middle ? kShard1 : kShard2) + "\"";
  }
  temp.Write(kIndex, R"({"metadata": {"total_size": 1}, "weight_map": {)" + map + "}}");
}

void ReplaceByLink(const TempDirectory& temp, const char* name, const std::string& target) {
  fs::remove(temp.File(name));
  fs::create_symlink(target, temp.File(name));
}

std::vector<BadDirectory> BadDirectories() {
  using enum absl::StatusCode;
  const auto index_names = [](const std::string& shard) {
    return [shard](const TempDirectory& temp) { temp.Write(kIndex, Index(shard)); };
  };
  const auto remove = [](const char* name) {
    return [name](const TempDirectory& temp) { fs::remove(temp.File(name)); };
  };
  const auto write = [](const char* name, const std::string& bytes) {
    return [name, bytes](const TempDirectory& temp) { temp.Write(name, bytes); };
  };
  return {
      {"no config", remove("config.json"), kNotFound, "config.json: No such file"},
      {"empty config", write("config.json", ""), kInvalidArgument, "config.json: not valid JSON"},
      {"huge config", write("config.json", std::string((16 << 20) + 1, ' ')), kInvalidArgument,
       "config.json: has 16777217 bytes; limit is 16777216"},
      {"config is a directory",
       [](const TempDirectory& temp) {
         fs::remove(temp.File("config.json"));
         fs::create_directory(temp.File("config.json"));
       },
       kInvalidArgument, "config.json: not a regular file"},
      {"bad generation config", write("generation_config.json", "{"), kInvalidArgument, "generation_config.json: not"},
      {"missing shard", remove(kShard2), kNotFound, "model-00002-of-00002.safetensors: No such file"},
      {"missing shard without an index",
       [](const TempDirectory& temp) {
         fs::remove(temp.File(kIndex));
         fs::remove(temp.File(kShard1));
       },
       kNotFound, "model-00001-of-00002.safetensors: a shard of the checkpoint is missing"},
      {"no weights at all",
       [](const TempDirectory& temp) {
         for (const char* name : {kIndex, kShard1, kShard2}) fs::remove(temp.File(name));
       },
       kNotFound, "no *.safetensors file"},
      {"pickle only",
       [](const TempDirectory& temp) {
         for (const char* name : {kIndex, kShard1, kShard2}) fs::remove(temp.File(name));
         temp.Write("pytorch_model.bin", "x");
       },
       kInvalidArgument, "pytorch_model.bin: is no file of torch.save: it is no zip archive"},
      {"a million shards",
       [](const TempDirectory& temp) {
         fs::remove(temp.File(kIndex));
         fs::rename(temp.File(kShard1), temp.File("a-1-of-1000000.safetensors"));
       },
       kInvalidArgument, "the checkpoint has 1000000 files; limit is 512"},
      {"index with dots", index_names("../model.safetensors"), kInvalidArgument, "names '../model.safetensors'"},
      {"index with etc", index_names("../../etc/passwd"), kInvalidArgument, "names '../../etc/passwd'"},
      {"index absolute", index_names("/etc/passwd"), kInvalidArgument, "names '/etc/passwd'"},
      {"index proc", index_names("/proc/self/environ"), kInvalidArgument, "names '/proc/self/environ'"},
      {"index folder", index_names("a/b.safetensors"), kInvalidArgument, "names 'a/b.safetensors'"},
      {"index escaped", index_names("%2e%2e.safetensors"), kInvalidArgument, "names '%2e%2e.safetensors'"},
      {"index NUL", index_names("a\\u0000.safetensors"), kInvalidArgument, "a shard is a plain file name"},
      {"index ending", index_names("pytorch_model.bin"), kInvalidArgument, "ending in .safetensors"},
      {"index hidden", index_names(".safetensors"), kInvalidArgument, "a shard is a plain file name"},
      {"index number", write(kIndex, R"({"weight_map": {"a": 1}})"), kInvalidArgument, "a shard is a plain file name"},
      {"index empty", write(kIndex, R"({"weight_map": {}})"), kInvalidArgument, "weight_map is missing or empty"},
      {"index list", write(kIndex, R"({"weight_map": []})"), kInvalidArgument, "weight_map is []; must be an object"},
      {"index broken", write(kIndex, R"({"weight_map")"), kInvalidArgument, "index.json: not valid JSON"},
      {"index twice", write(kIndex, R"({"weight_map": {"a": "b", "a": "c"}})"), kInvalidArgument,
       "key 'a' appears twice"},
      {"shard links out", [](const TempDirectory& temp) { ReplaceByLink(temp, kShard1, "/etc/passwd"); },
       kInvalidArgument, "model-00001-of-00002.safetensors: a symbolic link that leaves the model directory"},
      {"shard links to a device", [](const TempDirectory& temp) { ReplaceByLink(temp, kShard1, "/dev/zero"); },
       kInvalidArgument, "a symbolic link that leaves the model directory"},
      {"shard dangles", [](const TempDirectory& temp) { ReplaceByLink(temp, kShard1, "gone"); }, kNotFound,
       "model-00001-of-00002.safetensors: No such file"},
      {"config links out", [](const TempDirectory& temp) { ReplaceByLink(temp, "config.json", "/proc/self/environ"); },
       kInvalidArgument, "config.json: a symbolic link that leaves the model directory"},
      {"shard is a pipe",
       [](const TempDirectory& temp) {
         fs::remove(temp.File(kShard1));
         ASSERT_EQ(mkfifo(temp.File(kShard1).c_str(), 0600), 0);
       },
       kInvalidArgument, "model-00001-of-00002.safetensors: not a regular file"},
      {"shard is empty", write(kShard1, ""), kInvalidArgument, "has 0 bytes; a safetensors file has at least 8"},
      {"shard of 7 bytes", write(kShard1, "1234567"), kInvalidArgument, "has 7 bytes"},
      {"header length 0", write(kShard1, std::string(8, '\0')), kInvalidArgument, "does not start with '{'"},
      {"header length 2^63", write(kShard1, std::string(7, '\0') + "\x80{}"), kInvalidArgument,
       "header length is 9223372036854775808 bytes; limit is 16777216"},
      {"header length 2^64 - 1", write(kShard1, std::string(8, '\xFF') + "{}"), kInvalidArgument,
       "header length is 1844"},
      {"header longer than the file", write(kShard1, std::string("\x03\0\0\0\0\0\0\0{}", 10)), kInvalidArgument,
       "header length is 3 bytes; the file has 10: it is cut short"},
      {"a tensor in two shards",
       [](const TempDirectory& temp) {
         fs::copy_file(temp.File(kShard1), temp.File(kShard2), fs::copy_options::overwrite_existing);
       },
       kInvalidArgument, "is in model-00001-of-00002.safetensors and in model-00002-of-00002.safetensors"},
      {"a missing tensor",
       [](const TempDirectory& temp) {
         std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
         std::erase_if(tensors, [](const TestTensor& t) { return t.name.ends_with("c_fc.weight"); });
         temp.Write("model.safetensors", SafetensorsBytes(tensors));
       },
       kNotFound, "lacks 2 tensor(s): transformer.h.0.mlp.c_fc.weight, transformer.h.1.mlp.c_fc.weight"},
      {"nothing that is needed", write("model.safetensors", SafetensorsBytes({{.name = "x", .shape = {1}}})), kNotFound,
       "lacks 28 tensor(s): transformer.wte.weight, transformer.wpe.weight"},
      {"a wrong shape",
       [](const TempDirectory& temp) {
         std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
         tensors[0].shape = {8, 6};
         temp.Write("model.safetensors", SafetensorsBytes(tensors));
       },
       kInvalidArgument, "'transformer.wte.weight' has shape [8, 6]; config.json makes it [7, 6]"},
      {"a wrong rank",
       [](const TempDirectory& temp) {
         std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
         tensors[2].shape = {6, 1};
         temp.Write("model.safetensors", SafetensorsBytes(tensors));
       },
       kInvalidArgument, "'transformer.h.0.ln_1.weight' has shape [6, 1]; config.json makes it [6]"},
      {"8-bit weights",
       [](const TempDirectory& temp) {
         temp.Write("model.safetensors", SafetensorsBytes(Gpt2Tensors("transformer.", "F8_E4M3")));
       },
       kInvalidArgument, "is F8_E4M3, but config.json has no quantization_config"},
      {"double weights",
       [](const TempDirectory& temp) {
         temp.Write("model.safetensors", SafetensorsBytes(Gpt2Tensors("transformer.", "F64")));
       },
       kInvalidArgument, "has dtype F64"},
  };
}

TEST(ModelDirectory, AValidOneLoads) {
  const TempDirectory temp;
  WriteShards(temp);
  EXPECT_TRUE(LoadStatus(temp.path()).ok()) << LoadStatus(temp.path());
  fs::remove(temp.File(kIndex));
  EXPECT_TRUE(LoadStatus(temp.path()).ok()) << LoadStatus(temp.path());
}

TEST(ModelDirectory, FollowsLinksInside) {
  const TempDirectory temp;
  WriteShards(temp);
  fs::create_directory(temp.File("blobs"));
  fs::rename(temp.File(kShard1), temp.File("blobs/1"));
  fs::create_symlink("blobs/1", temp.File(kShard1));
  EXPECT_TRUE(LoadStatus(temp.path()).ok()) << LoadStatus(temp.path());
}

TEST(ModelDirectory, SaysThatAFileIsAPointerOfGitLfs) {
  const TempDirectory temp;
  WriteShards(temp);
  temp.Write(kShard1, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  EXPECT_THAT(std::string(LoadStatus(temp.path()).message()),
              HasSubstr("model-00001-of-00002.safetensors: is a pointer of Git LFS and not the file itself"));
}

TEST(ModelDirectory, RefusesEachBadOneWithItsReason) {
  for (const BadDirectory& c : BadDirectories()) {
    const TempDirectory temp;
    WriteShards(temp);
    c.bend(temp);
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = LoadStatus(temp.path());
    EXPECT_EQ(status.code(), c.code) << c.what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(temp.path() + ": ")) << c.what;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << c.what;
  }
}

}  // namespace
}  // namespace dunlin::engine
