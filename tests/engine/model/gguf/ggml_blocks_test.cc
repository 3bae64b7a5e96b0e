// SPDX-License-Identifier: Apache-2.0
// Every block format against gguf.quants, bit for bit (tests/golden/gguf/make_gguf_goldens.py).
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/checkpoint/gguf/ggml_types.h"

namespace dunlin::engine {
namespace {

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

TEST(GgmlBlocks, HaveTheBitsOfThePythonPackage) {
  std::ifstream file(DUNLIN_SOURCE_DIR "/tests/golden/gguf/blocks.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  ASSERT_EQ(goldens.size(), 13U);
  for (const auto& [name, golden] : goldens.items()) {
    SCOPED_TRACE(name);
    const GgmlType* type = FindGgmlType(golden.at("id").get<uint32_t>());
    ASSERT_NE(type, nullptr);
    EXPECT_EQ(type->presented.name, name);
    ASSERT_NE(type->dequantize, nullptr);
    const std::string blocks = FromHex(golden.at("blocks"));
    const std::string expected = FromHex(golden.at("values"));
    ASSERT_EQ(blocks.size() % type->block_bytes, 0U);
    const size_t num_blocks = blocks.size() / type->block_bytes;
    ASSERT_EQ(expected.size(), num_blocks * type->block_elements * sizeof(float));
    std::vector<float> values(num_blocks * type->block_elements);
    type->dequantize(reinterpret_cast<const uint8_t*>(blocks.data()), num_blocks, values.data());
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size()), 0);
  }
}

TEST(GgmlTypes, KnowTheSizesOfFormatsThatAreNotLoaded) {
  const GgmlType* type = FindGgmlType(16);
  ASSERT_NE(type, nullptr);
  EXPECT_STREQ(type->presented.name, "IQ2_XXS");
  EXPECT_EQ(type->block_bytes, 66U);
  EXPECT_FALSE(type->presented.loadable.has_value());
  EXPECT_EQ(FindGgmlType(4), nullptr);  // withdrawn
}

}  // namespace
}  // namespace dunlin::engine
