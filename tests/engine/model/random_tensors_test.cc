// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/random_tensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "engine/model/load/model_directory.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

std::vector<WeightPart> Parts(const std::string& config) {
  const absl::StatusOr<ParsedModel> parsed = ParseModelConfig(config, "");
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return ListWeightParts(parsed->names, parsed->config, parsed->names.prefixes.front());
}

std::vector<float> ReadElements(const RandomTensors& tensors, const std::string& name, uint64_t first, size_t count) {
  std::vector<uint16_t> bits(count);
  EXPECT_TRUE(tensors.Read(*tensors.Find(name), 2 * first, std::as_writable_bytes(std::span(bits))).ok());
  std::vector<float> values;
  for (const uint16_t b : bits) values.push_back(kernels::Bf16ToFloat(b));
  return values;
}

TEST(RandomTensors, FillEveryPart) {
  const std::vector<WeightPart> parts = Parts(kLlamaConfig);
  const RandomTensors tensors(parts, 1);
  EXPECT_TRUE(CheckParts(parts, tensors).ok()) << CheckParts(parts, tensors);
  EXPECT_EQ(tensors.List().size(), parts.size());
  EXPECT_EQ(ReadElements(tensors, "model.norm.weight", 0, 6), std::vector<float>(6, 1.0F));
  EXPECT_EQ(ReadElements(tensors, "model.layers.0.mlp.up_proj.bias", 0, 10), std::vector<float>(10, 0.0F));
}

TEST(RandomTensors, PartialReadsEqualTheWhole) {
  const RandomTensors tensors(Parts(kLlamaConfig), 1);
  const std::vector<float> whole = ReadElements(tensors, "lm_head.weight", 0, 54);
  for (uint64_t first = 0; first < 54; ++first) {
    for (size_t count = 0; count <= 54 - first; ++count) {
      const std::vector<float> piece = ReadElements(tensors, "lm_head.weight", first, count);
      ASSERT_EQ(piece, std::vector<float>(whole.begin() + static_cast<ptrdiff_t>(first),
                                          whole.begin() + static_cast<ptrdiff_t>(first + count)));
    }
  }
}

TEST(RandomTensors, DependOnSeedAndName) {
  const std::vector<WeightPart> parts = Parts(kLlamaConfig);
  const RandomTensors one(parts, 1);
  const RandomTensors again(parts, 1);
  const RandomTensors two(parts, 2);
  EXPECT_EQ(ReadElements(one, "lm_head.weight", 0, 54), ReadElements(again, "lm_head.weight", 0, 54));
  EXPECT_NE(ReadElements(one, "lm_head.weight", 0, 54), ReadElements(two, "lm_head.weight", 0, 54));
  EXPECT_NE(ReadElements(one, "lm_head.weight", 0, 54), ReadElements(one, "model.embed_tokens.weight", 0, 54));
}

// Pinned, because benchmarks depend on the model's values.
TEST(RandomTensors, FirstValuesArePinned) {
  const RandomTensors tensors(Parts(kLlamaConfig), 42);
  const std::vector<float> values = ReadElements(tensors, "lm_head.weight", 0, 4);
  const std::vector<float> expected = {-0.0247802734F, 0.00283813477F, -0.00378417969F, -0.0112304688F};
  EXPECT_EQ(values, expected);
}

TEST(RandomTensors, LookNormal) {
  const RandomTensors tensors(Parts(WithField(kLlamaConfig, "vocab_size", "40000")), 7);
  const std::vector<float> values = ReadElements(tensors, "lm_head.weight", 0, 240'000);
  double sum = 0.0;
  double squares = 0.0;
  double neighbours = 0.0;
  int beyond_two = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i] / 0.02;
    sum += value;
    squares += value * value;
    if (i > 0) neighbours += value * values[i - 1] / 0.02;
    if (std::abs(value) > 2.0) ++beyond_two;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.0, 0.01);  // standard error 0.002
  EXPECT_NEAR(squares / count, 1.0, 0.02);
  EXPECT_NEAR(neighbours / count, 0.0, 0.01);
  EXPECT_NEAR(beyond_two / count, 0.0455, 0.006);  // a normal's tail
}

}  // namespace
}  // namespace dunlin::engine
