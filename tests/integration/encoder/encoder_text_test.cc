// SPDX-License-Identifier: Apache-2.0
// The tokenizers of encoders: token ids as Hugging Face encodes, [CLS] and [SEP] or <s> and </s> around them.
#include <gtest/gtest.h>

#include "engine/text/tokenizer.h"
#include "tests/integration/encoder/encoder_goldens.h"

namespace dunlin::engine {
namespace {

class EncoderText : public ::testing::TestWithParam<std::string> {};

TEST_P(EncoderText, EncodesAsHuggingFaceDoes) {
  const auto tokenizer = Tokenizer::Load(GoldenEncoderPath(GetParam()), 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const EncoderGoldens goldens = ReadEncoderGoldens(GetParam());
  ASSERT_GE(goldens.texts.size(), 10U);
  for (const GoldenText& golden : goldens.texts) {
    const auto ids = (*tokenizer)->Encode(golden.text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden.token_ids) << golden.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Encoders, EncoderText, ::testing::ValuesIn(GoldenEncoderNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
