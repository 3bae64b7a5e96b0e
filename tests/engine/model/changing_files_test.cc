// SPDX-License-Identifier: Apache-2.0
// Files truncated before or during reading: loading fails without a signal and never returns a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "engine/model/load/load_model.h"
#include "engine/model/model.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<Model>> Load(const TempDirectory& temp, kernels::Device* device) {
  return LoadModel({.path = temp.path(), .random_shape = "", .precisions = {Precision::kFp32}}, device);
}

TEST(ChangingFiles, NoPrefixOfAFileLoads) {
  const TempDirectory temp;
  const std::string file = SafetensorsBytes(LlamaTensors());
  temp.Write("config.json", kLlamaConfig);
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const size_t step = file.size() / 400 + 1;
  for (size_t size = 0; size < file.size(); size += size < 64 ? 1 : step) {
    temp.Write("model.safetensors", file.substr(0, size));
    ASSERT_EQ(Load(temp, device.get()).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
  temp.Write("model.safetensors", file + '\0');
  EXPECT_THAT(std::string(Load(temp, device.get()).status().message()), HasSubstr("bytes are left over"));
  temp.Write("model.safetensors", file);
  EXPECT_TRUE(Load(temp, device.get()).ok());
  EXPECT_EQ(state.num_packs, 2 + 2 * 7);
}

struct Meddling {
  std::string file;
  int pack;      // when
  int64_t size;  // cut to; -1 overwrites a byte in place
  int packs = 0;
};

void Meddle(void* argument) {
  auto* meddling = static_cast<Meddling*>(argument);
  if (meddling->packs++ != meddling->pack) return;
  if (meddling->size >= 0) {
    ASSERT_EQ(truncate(meddling->file.c_str(), meddling->size), 0);
    return;
  }
  std::fstream stream(meddling->file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('x');
}

TEST(ChangingFiles, ChangesDuringTheLoadAreDataLossAtEveryStep) {
  const std::string file = SafetensorsBytes(LlamaTensors());
  for (const int64_t size : {int64_t{0}, int64_t{100}, static_cast<int64_t>(file.size()) - 1, int64_t{-1}}) {
    for (int pack = 0; pack < 2 + 2 * 7; ++pack) {
      const TempDirectory temp;
      WriteModel(temp, kLlamaConfig, LlamaTensors());
      // Older than the clock tick of the change.
      fs::last_write_time(temp.File("model.safetensors"), fs::file_time_type::clock::now() - std::chrono::hours(1));
      Meddling meddling{.file = temp.File("model.safetensors"), .pack = pack, .size = size};
      PlainDeviceState state{.on_pack = &Meddle, .on_pack_argument = &meddling};
      const auto device = MakePlainDevice(&state);
      const absl::Status status = Load(temp, device.get()).status();
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << " at " << pack << ": " << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr("model.safetensors: "));
      ASSERT_EQ(state.bytes_held, 0U);
    }
  }
}

TEST(ChangingFiles, NothingRefersToTheFilesAfterTheLoad) {
  const TempDirectory temp;
  WriteModel(temp, kLlamaConfig, LlamaTensors());
  PlainDeviceState state;
  const auto device = MakePlainDevice(&state);
  const auto model = Load(temp, device.get());
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(truncate(temp.File("model.safetensors").c_str(), 0), 0);
  EXPECT_EQ(ElementOf((*model)->weights(Precision::kFp32).head.weight, 8, 5), ValueOf("lm_head.weight", 53));
}

// A writer truncates and restores the file continuously: every load ends, and a model that loads is complete.
TEST(ChangingFiles, ConcurrentTruncationNeverCrashes) {
  const TempDirectory temp;
  WriteModel(temp, kLlamaConfig, LlamaTensors());
  const std::string file = SafetensorsBytes(LlamaTensors());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (size_t i = 0; !stop; ++i) {
      EXPECT_EQ(truncate(temp.File("model.safetensors").c_str(), static_cast<off_t>(i * 997 % file.size())), 0);
      temp.Write("model.safetensors", file);
      if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  int num_loaded = 0;
  for (int i = 0; i < 300; ++i) {
    PlainDeviceState state;
    const auto device = MakePlainDevice(&state);
    const auto model = Load(temp, device.get());
    if (!model.ok()) {
      const absl::StatusCode code = model.status().code();
      EXPECT_TRUE(code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kInvalidArgument) << model.status();
      continue;
    }
    ++num_loaded;
    EXPECT_EQ(ElementOf((*model)->weights(Precision::kFp32).head.weight, 8, 5), ValueOf("lm_head.weight", 53));
  }
  stop = true;
  writer.join();
  RecordProperty("loaded", num_loaded);
}

}  // namespace
}  // namespace dunlin::engine
