// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_tying.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/load/load_model.h"
#include "engine/model/model.h"
#include "tests/engine/model/model_loading.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WeightTyingTest : public ModelLoading {
 protected:
  std::unique_ptr<Model> LoadOrDie(const std::string& config, const std::vector<TestTensor>& tensors) {
    auto model = Load(config, tensors);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }
};

TEST_F(WeightTyingTest, DifferentHeadsAreNotTiedWhateverTheConfigSays) {
  std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
  tensors.push_back({.name = "lm_head.weight", .shape = {7, 6}});
  const auto model = LoadOrDie(kGpt2Config, tensors);
  const PrecisionWeights& weights = model->weights(Precision::kFp32);
  EXPECT_NE(weights.head.weight.data, weights.embedding.data);
  EXPECT_EQ(ElementOf(weights.head.weight, 3, 2), ValueOf("lm_head.weight", 20));
  EXPECT_FALSE(model->config().head.tied);
  ASSERT_EQ(model->warnings().size(), 1U);
  EXPECT_THAT(model->warnings()[0], HasSubstr("has both with different values: they are not tied"));
}

TEST_F(WeightTyingTest, EqualHeadsShareMemory) {
  std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
  tensors[0].dtype = "I32";  // both zeros
  tensors.push_back({.name = "lm_head.weight", .shape = {7, 6}, .dtype = "I32"});
  std::string file = SafetensorsBytes(tensors);
  for (size_t at = file.find("I32"); at != std::string::npos; at = file.find("I32", at)) file.replace(at, 3, "F32");
  WriteModel(temp_, kGpt2Config, tensors);
  temp_.Write("model.safetensors", file);
  const auto model =
      LoadModel({.path = temp_.path(), .random_shape = "", .precisions = {Precision::kFp32}}, device_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->weights(Precision::kFp32).head.weight.data, (*model)->weights(Precision::kFp32).embedding.data);
  EXPECT_THAT((*model)->warnings(), testing::ElementsAre(HasSubstr("lm_head.weight")));
}

TEST_F(WeightTyingTest, ComparesHeadsOfManyBlocksToTheEnd) {
  constexpr int64_t kVocabulary = 800'000;  // 19 MB: more than is compared at once
  std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
  tensors[0].dtype = "I32";  // both zeros, but for the head's last byte
  tensors[0].shape = {kVocabulary, 6};
  tensors.push_back({.name = "lm_head.weight", .shape = {kVocabulary, 6}, .dtype = "I32"});
  std::string file = SafetensorsBytes(tensors);
  for (size_t at = file.find("I32"); at < 4096; at = file.find("I32", at)) file.replace(at, 3, "F32");
  file.back() = '\x3f';
  temp_.Write("config.json", WithField(kGpt2Config, "vocab_size", std::to_string(kVocabulary)));
  temp_.Write("model.safetensors", file);
  const auto model =
      LoadModel({.path = temp_.path(), .random_shape = "", .precisions = {Precision::kFp32}}, device_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE((*model)->config().head.tied);
}

TEST_F(WeightTyingTest, AHeadAloneAlsoProvidesTheEmbedding) {
  std::vector<TestTensor> tensors = Gpt2Tensors("transformer.");
  tensors[0].name = "lm_head.weight";
  const auto model = LoadOrDie(kGpt2Config, tensors);
  const PrecisionWeights& weights = model->weights(Precision::kFp32);
  EXPECT_EQ(weights.head.weight.data, weights.embedding.data);
  EXPECT_EQ(ElementOf(weights.embedding, 3, 2), ValueOf("lm_head.weight", 20));
  EXPECT_THAT(model->warnings(), IsEmpty());
}

TEST_F(WeightTyingTest, AnUntiedModelNeedsItsHead) {
  WriteModel(temp_, WithField(kGpt2Config, "tie_word_embeddings", "false"), Gpt2Tensors("transformer."));
  const absl::Status status =
      LoadModel({.path = temp_.path(), .random_shape = "", .precisions = {Precision::kFp32}}, device_.get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lacks 1 tensor(s): lm_head.weight"));
}

}  // namespace
}  // namespace dunlin::engine
