// SPDX-License-Identifier: Apache-2.0
// Every block format against gguf.quants, bit for bit (tests/golden/gguf/make_gguf_goldens.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/checkpoint/coded_rows.h"
#include "engine/model/checkpoint/gguf/ggml_codes.h"
#include "engine/model/checkpoint/gguf/ggml_types.h"
#include "kernels/api/code_levels.h"

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
  ASSERT_EQ(goldens.size(), 20U);
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

TEST(GgmlCodes, HaveTheBitsOfThePythonPackage) {
  std::ifstream file(DUNLIN_SOURCE_DIR "/tests/golden/gguf/blocks.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  size_t num_types = 0;
  for (const auto& [name, golden] : goldens.items()) {
    SCOPED_TRACE(name);
    const GgmlCodes* type = FindGgmlCodes(golden.at("id").get<uint32_t>());
    if (type == nullptr) continue;
    ++num_types;
    const std::string blocks = FromHex(golden.at("blocks"));
    const std::string expected = FromHex(golden.at("values"));
    const size_t columns = expected.size() / sizeof(float);
    CodedRows rows;
    rows.Resize(type->traits, 1, static_cast<int64_t>(columns));
    type->unpack(reinterpret_cast<const uint8_t*>(blocks.data()), columns / static_cast<size_t>(type->traits.block),
                 {.codes = rows.codes.data(),
                  .factors = rows.factors.data(),
                  .scales = rows.scales.data(),
                  .min_factors = rows.min_factors.data(),
                  .minimums = rows.minimums.data(),
                  .wide_factors = rows.wide_factors.data()});
    for (const int8_t code : rows.codes) {
      EXPECT_GE(code, type->traits.code_min);
      EXPECT_LE(code, type->traits.code_max);
      const auto& levels = kernels::RowOf(type->traits.levels).values;
      EXPECT_TRUE(type->traits.levels == kernels::CodeLevels::kIntegers ||
                  std::find(std::begin(levels), std::end(levels), code) != std::end(levels));
    }
    std::vector<float> values(columns);
    rows.Dequantize(values.data());
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size()), 0);
  }
  EXPECT_EQ(num_types, 19U);
}

TEST(GgmlTypes, KnowTheSizesOfFormatsThatAreNotLoaded) {
  const GgmlType* type = FindGgmlType(34);
  ASSERT_NE(type, nullptr);
  EXPECT_STREQ(type->presented.name, "TQ1_0");
  EXPECT_EQ(type->block_bytes, 54U);
  EXPECT_FALSE(type->presented.loadable.has_value());
  EXPECT_EQ(FindGgmlType(4), nullptr);  // withdrawn
}

}  // namespace
}  // namespace dunlin::engine
