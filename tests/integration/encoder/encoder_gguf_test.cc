// SPDX-License-Identifier: Apache-2.0
// An encoder out of a GGUF file: vectors, token ids and pooling of the checkpoint that it was made from.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/encoder/embedding_settings.h"
#include "engine/model/load/gguf_model.h"
#include "tests/integration/encoder/encoder_client.h"
#include "tests/integration/encoder/encoder_goldens.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/test_model.h"
#include "text/tokenizer.h"

namespace dunlin::engine {
namespace {

constexpr const char* kName = "bert_tiny";
constexpr float kGgufTolerance = 1e-4F;

std::string FilePath(const std::string& name) {
  return SourcePath("tests/golden/gguf/encoders/" + name + ".gguf");
}

class EncoderGgufVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(EncoderGgufVectors, AreThoseOfTheCheckpoint) {
  const TestModel test = LoadTestModel(FilePath(GetParam()), "", 2, {Precision::kFp32});
  EXPECT_TRUE(test.model->warnings().empty()) << test.model->warnings().front();
  EngineOptions options;
  options.max_tokens_per_step = 4096;
  EncoderClient client(test.model.get(), options);
  const EncoderGoldens goldens = ReadEncoderGoldens(GetParam());
  EncodeRequest request;
  request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp32};
  request.dimensions = test.model->config().hidden_dim;
  request.pooling = Pooling::kCls;
  for (const GoldenInput& input : goldens.inputs) {
    request.tokens = input.tokens;
    request.lengths = {static_cast<int32_t>(input.tokens.size())};
    EXPECT_LE(LargestError(client.Run(request), input.cls), kGgufTolerance) << input.tokens.size();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderGgufVectors, ::testing::Values("bert_tiny", "nomic_tiny", "modernbert_tiny"),
                         [](const auto& test) { return test.param; });

TEST(EncoderGguf, HasTheTokenizerAndThePoolingOfTheFile) {
  const auto files = OpenModelFiles(FilePath(kName));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto settings = ReadEmbeddingSettings(**files, 0);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->pooling, Pooling::kCls);
  const auto tokenizer = text::Tokenizer::Load(**files, 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  for (const GoldenText& golden : ReadEncoderGoldens(kName).texts) {
    const auto ids = (*tokenizer)->Encode(golden.text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden.token_ids) << golden.text;
  }
}

}  // namespace
}  // namespace dunlin::engine
