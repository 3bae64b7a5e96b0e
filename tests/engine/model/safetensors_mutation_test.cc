// SPDX-License-Identifier: Apache-2.0
// Seeded mutations of a valid header: each is refused or, if accepted, still tiles its file.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/model/checkpoint/safetensors_header.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

constexpr int kMutations = 20'000;
constexpr char kInteresting[] =
    "{}[]\",:0123456789-.eE\\ \0\xFF"
    "aF";

void ExpectTiles(std::vector<TensorInfo> tensors, uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const TensorInfo& tensor : tensors) {
    ASSERT_EQ(tensor.begin, at);
    ASSERT_NE(tensor.dtype, nullptr);
    at = tensor.end;
  }
  ASSERT_EQ(at, data_bytes);
}

void Mutate(std::mt19937_64& random, std::string* text) {
  const size_t at = random() % text->size();
  switch (random() % 5) {
    case 0:
      (*text)[at] = static_cast<char>(random());
      break;
    case 1:
      (*text)[at] = kInteresting[random() % (sizeof(kInteresting) - 1)];
      break;
    case 2:
      text->erase(at, 1 + random() % 8);
      break;
    case 3:
      text->insert(at, text->substr(random() % text->size(), random() % 40));
      break;
    case 4:
      text->resize(at);
      break;
  }
  if (text->empty()) *text = "{";
}

TEST(SafetensorsHeader, SurvivesMutations) {
  const std::string file = SafetensorsBytes(LlamaTensors());
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<uint8_t>(file[i]);
  const std::string good = file.substr(8, length);
  const uint64_t data_bytes = file.size() - 8 - length;
  ASSERT_TRUE(ParseSafetensorsHeader(good, data_bytes).ok());

  std::mt19937_64 random(20260701);
  int taken = 0;
  for (int i = 0; i < kMutations; ++i) {
    std::string header = good;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) Mutate(random, &header);
    const auto tensors = ParseSafetensorsHeader(header, data_bytes);
    if (!tensors.ok()) {
      ASSERT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_FALSE(tensors.status().message().empty());
      continue;
    }
    ++taken;
    ExpectTiles(*tensors, data_bytes);
  }
  EXPECT_GT(taken, 0);  // a changed character of a name leaves a valid header
}

}  // namespace
}  // namespace dunlin::engine
