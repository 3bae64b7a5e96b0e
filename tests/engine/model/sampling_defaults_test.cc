// SPDX-License-Identifier: Apache-2.0
// generation_config.json: what becomes a default, what is dropped or not supported and named, what is refused.
#include "engine/model/load/sampling_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr int32_t kVocab = 100;

GenerationDefaults ParsedDefaults(const char* text) {
  auto defaults = ParseGenerationDefaults(text, kVocab);
  EXPECT_TRUE(defaults.ok()) << defaults.status();
  return defaults.ok() ? *std::move(defaults) : GenerationDefaults();
}

TEST(GenerationDefaults, AnEmptyFileKeepsTheDefaults) {
  const GenerationDefaults defaults = ParsedDefaults("{}");
  EXPECT_EQ(defaults.sampling.temperature, 1.0F);
  EXPECT_EQ(defaults.sampling.top_k, 0);
  EXPECT_EQ(defaults.sampling.repetition_penalty, 1.0F);
  EXPECT_FALSE(defaults.max_tokens.has_value());
  EXPECT_THAT(defaults.warnings, IsEmpty());
}

TEST(GenerationDefaults, EveryFieldThatMapsIsRead) {
  const GenerationDefaults defaults =
      ParsedDefaults(R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
      "min_p": 0.05, "repetition_penalty": 1.1, "max_new_tokens": 2048, "suppress_tokens": [1, 2],
      "begin_suppress_tokens": [3], "bad_words_ids": [[4], [5, 6]], "eos_token_id": [7, 8]})");
  EXPECT_EQ(defaults.sampling.temperature, 0.6F);
  EXPECT_EQ(defaults.sampling.top_k, 20);
  EXPECT_EQ(defaults.sampling.top_p, 0.95F);
  EXPECT_EQ(defaults.sampling.min_p, 0.05F);
  EXPECT_EQ(defaults.sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(defaults.max_tokens, 2048);
  EXPECT_THAT(defaults.sampling.suppressed_token_ids, ElementsAre(1, 2));
  EXPECT_THAT(defaults.sampling.begin_suppressed_token_ids, ElementsAre(3));
  EXPECT_THAT(defaults.sampling.bad_words, ElementsAre(ElementsAre(4), ElementsAre(5, 6)));
  EXPECT_THAT(defaults.warnings, IsEmpty());
}

TEST(GenerationDefaults, WithoutSamplingTheTemperatureIsZero) {
  EXPECT_EQ(ParsedDefaults(R"({"do_sample": false, "temperature": 0.6})").sampling.temperature, 0.0F);
  EXPECT_EQ(ParsedDefaults(R"({"temperature": 0.6})").sampling.temperature, 0.6F);
  EXPECT_EQ(ParsedDefaults(R"({"do_sample": null})").sampling.temperature, 1.0F);
}

TEST(GenerationDefaults, WhatIsNotSupportedIsNamedUnlessItIsOff) {
  const GenerationDefaults defaults = ParsedDefaults(R"({"num_beams": 4, "no_repeat_ngram_size": 3, "typical_p": 0.9,
      "watermarking_config": {"bias": 2.5}, "length_penalty": 1.0, "top_h": null, "early_stopping": false,
      "forced_eos_token_id": [], "_from_model_config": true, "transformers_version": "5.0", "pad_token_id": 9})");
  EXPECT_THAT(defaults.warnings,
              UnorderedElementsAre("generation_config.json: num_beams is ignored: not supported",
                                   "generation_config.json: no_repeat_ngram_size is ignored: not supported",
                                   "generation_config.json: typical_p is ignored: not supported",
                                   "generation_config.json: watermarking_config is ignored: not supported"));
}

TEST(GenerationDefaults, IdsOutsideTheVocabularyAreDroppedAndNamed) {
  const GenerationDefaults defaults =
      ParsedDefaults(R"({"suppress_tokens": [1, 100, -1], "bad_words_ids": [[4], [5, 100], []]})");
  EXPECT_THAT(defaults.sampling.suppressed_token_ids, ElementsAre(1));
  EXPECT_THAT(defaults.sampling.bad_words, ElementsAre(ElementsAre(4)));
  EXPECT_THAT(defaults.warnings,
              ElementsAre("generation_config.json: suppress_tokens 100 is ignored: the vocabulary has 100 tokens",
                          "generation_config.json: suppress_tokens -1 is ignored: the vocabulary has 100 tokens",
                          "generation_config.json: an entry of bad_words_ids is ignored: it must have 1 to 64 ids in "
                          "[0, 100)",
                          "generation_config.json: an entry of bad_words_ids is ignored: it must have 1 to 64 ids in "
                          "[0, 100)"));
}

TEST(GenerationDefaults, ValuesOutOfRangeAreRefused) {
  for (const char* text : {R"({"temperature": -1})", R"({"top_p": 0})", R"({"max_new_tokens": 0})",
                           R"({"suppress_tokens": "all"})", R"({"bad_words_ids": 3})", R"({"do_sample": 1})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseGenerationDefaults(text, kVocab).status())) << text;
  }
}

}  // namespace
}  // namespace dunlin::engine
