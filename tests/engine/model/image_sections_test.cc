// SPDX-License-Identifier: Apache-2.0
// Sections of rotations: which pairs of dimensions rotate by an image's rows and columns, and configs that are refused.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/load/model_directory.h"

namespace dunlin::engine {
namespace {

// A letter for each pair of dimensions.
std::string AxesOf(const ModelConfig& config) {
  std::string letters;
  for (const RotationAxis axis : config.rotary.axes) letters += "src"[static_cast<size_t>(axis)];
  return letters;
}

absl::StatusOr<ParsedModel> ParseWith(const char* model_type, int head_dim, const std::string& rope) {
  return ParseModelConfig(
      absl::StrCat(R"({"model_type": ")", model_type, R"(", "hidden_size": 64, "intermediate_size": 32,
          "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2, "vocab_size": 50,
          "eos_token_id": 3, "full_attention_interval": 2, "moe_intermediate_size": 16,
          "shared_expert_intermediate_size": 16, "head_dim": )",
                   head_dim, rope.empty() ? "" : ", ", rope, "}"),
      "");
}

TEST(ImageSections, AreContiguousOrInTurnByFamily) {
  const struct {
    const char* model_type;
    int head_dim;
    const char* rope;
    const char* axes;
  } cases[] = {
      {"qwen2_vl", 32, R"("rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]})", "ssssrrrrrrcccccc"},
      {"qwen2_5_vl_text", 32, R"("rope_parameters": {"rope_type": "default", "mrope_section": [16, 0, 0]})",
       "ssssssssssssssss"},
      {"qwen3_vl_text", 32, R"("rope_parameters": {"rope_type": "default", "mrope_section": [6, 5, 5]})",
       "srcsrcsrcsrcsrcs"},
      {"qwen3_vl_text", 32, R"("rope_scaling": {"rope_type": "default", "mrope_section": [8, 4, 4]})",
       "srcsrcsrcsrcssss"},
      {"qwen3_vl_moe_text", 16, R"("rope_parameters": {"mrope_section": [4, 3, 1]})", "srcsrssr"},
      // A quarter of the head rotates.
      {"qwen3_5_text", 64, R"("rope_parameters": {"mrope_section": [4, 2, 2], "partial_rotary_factor": 0.25})",
       "srcsrcss"},
      {"qwen3_5_moe_text", 64, R"("rope_parameters": {"mrope_section": [2, 3, 3]})", "srcsrcsr"},
      {"qwen3_vl_text", 32, R"("rope_parameters": {"rope_type": "default"})", ""},
      {"qwen2_vl", 32, "", ""},
      {"llama", 32, R"("rope_parameters": {"rope_type": "default", "mrope_section": [6, 5, 5]})", ""},
  };
  for (const auto& each : cases) {
    const absl::StatusOr<ParsedModel> parsed = ParseWith(each.model_type, each.head_dim, each.rope);
    ASSERT_TRUE(parsed.ok()) << each.model_type << ": " << parsed.status();
    EXPECT_EQ(AxesOf(parsed->config), each.axes) << each.model_type << " " << each.rope;
  }
}

TEST(ImageSections, LeaveFrequenciesAndScalingAsTheyAre) {
  const auto rope = [](const char* more) {
    return absl::StrCat(R"("rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768)",
                        more, "}");
  };
  const auto with = ParseWith("qwen2_5_vl_text", 32, rope(R"(, "mrope_section": [4, 6, 6])"));
  const auto without = ParseWith("qwen2_5_vl_text", 32, rope(""));
  ASSERT_TRUE(with.ok() && without.ok()) << with.status();
  EXPECT_EQ(with->config.rotary.inv_freq, without->config.rotary.inv_freq);
  EXPECT_EQ(with->config.rotary.attention_factors, without->config.rotary.attention_factors);
  EXPECT_GT(with->config.rotary.attention_factor(0), 1.0F);
  EXPECT_EQ(AxesOf(with->config), "ssssrrrrrrcccccc");
}

TEST(ImageSections, AreRefusedWhereTheyFitNoHead) {
  const struct {
    const char* model_type;
    const char* sections;
    const char* message;
  } cases[] = {
      {"qwen2_vl", "[8, 8]", "mrope_section has 2 entries; must have 3"},
      {"qwen3_vl_text", "16", "mrope_section has 1 entries; must have 3"},
      {"qwen2_vl", "[4, 6, 5]", "mrope_section adds up to 15; must be 16, the pairs of dimensions that rotate"},
      {"qwen2_vl", "[4, 6, 7]", "mrope_section adds up to 17; must be 16, the pairs of dimensions that rotate"},
      {"qwen2_vl", "[-1, 8, 9]", "is -1; limit is [0, "},
      {"qwen3_vl_text", "[6, 5, 100000]", "is 100000; limit is [0, "},
      {"qwen3_5_text", "[6, 5, 1.5]", "mrope_section"},
      {"qwen3_5_text", "\"11\"", "mrope_section"},
      {"qwen3_vl_text", "[6, 5, 4, 1]", "mrope_section"},
  };
  for (const auto& each : cases) {
    const auto parsed =
        ParseWith(each.model_type, 32, absl::StrCat(R"("rope_scaling": {"mrope_section": )", each.sections, "}"));
    ASSERT_FALSE(parsed.ok()) << each.sections;
    EXPECT_NE(parsed.status().message().find(each.message), std::string::npos) << parsed.status();
  }
}

}  // namespace
}  // namespace dunlin::engine
