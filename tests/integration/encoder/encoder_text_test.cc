// SPDX-License-Identifier: Apache-2.0
// The tokenizers of encoders: token ids as Hugging Face encodes, [CLS] and [SEP] or <s> and </s> around them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/encoder/encoder_goldens.h"
#include "text/text_pair.h"
#include "text/tokenizer.h"

namespace dunlin::engine {
namespace {

class EncoderText : public ::testing::TestWithParam<std::string> {};

TEST_P(EncoderText, EncodesAsHuggingFaceDoes) {
  const auto tokenizer = text::Tokenizer::Load(GoldenEncoderPath(GetParam()), 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const EncoderGoldens goldens = ReadEncoderGoldens(GetParam());
  ASSERT_GE(goldens.texts.size(), 10U);
  for (const GoldenText& golden : goldens.texts) {
    const auto ids = (*tokenizer)->Encode(golden.text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden.token_ids) << golden.text;
  }
}

class ClassifierText : public EncoderText {};

TEST_P(ClassifierText, EncodesPairsAsHuggingFaceDoes) {
  const EncoderGoldens goldens = ReadEncoderGoldens(GetParam());
  const auto tokenizer = text::Tokenizer::Load(GoldenEncoderPath(GetParam()), 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto frame = (*tokenizer)->FindPairFrame();
  ASSERT_TRUE(frame.ok()) << frame.status();
  const text::EncodeOptions plain{.add_special_tokens = false};
  for (const GoldenPair& golden : goldens.pairs) {
    const auto first = (*tokenizer)->Encode(golden.query, plain);
    const auto second = (*tokenizer)->Encode(golden.document, plain);
    ASSERT_TRUE(first.ok() && second.ok());
    std::vector<TokenId> tokens;
    const int32_t num_first = text::AppendPair(*frame, *first, *second, &tokens);
    EXPECT_EQ(tokens, golden.token_ids) << golden.query;
    const auto ones = std::find(golden.type_ids.begin(), golden.type_ids.end(), 1);
    // Transformers' tokenizer of ModernBERT, which has no token types, leaves out those of its post-processor.
    if (GetParam().rfind("modernbert", 0) != 0) {
      EXPECT_EQ(num_first, ones - golden.type_ids.begin()) << golden.query;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Classifiers, ClassifierText, ::testing::ValuesIn(GoldenClassifierNames()),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(Encoders, EncoderText, ::testing::ValuesIn(GoldenEncoderNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
