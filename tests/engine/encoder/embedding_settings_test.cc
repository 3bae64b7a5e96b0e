// SPDX-License-Identifier: Apache-2.0
// The files of sentence-transformers beside a model: what they mean, and which are refused.
#include "engine/encoder/embedding_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/engine/base/temp_directory.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPoolingModule = R"({"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
constexpr const char* kNormalizeModule = R"({"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})";

struct Files {
  TempDirectory temp;
  void Modules(const std::string& list) const {
    temp.Write("modules.json",
               R"([{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}, )" + list + "]");
  }
  void Pooling(const std::string& config) const {
    std::filesystem::create_directory(temp.File("1_Pooling"));
    temp.Write("1_Pooling/config.json", config);
  }
  absl::StatusOr<EmbeddingSettings> Read(int32_t num_labels = 0) const {
    return ReadEmbeddingSettings(*Directory::Open(temp.path()), num_labels);
  }
};

TEST(EmbeddingSettings, DefaultsToTheMeanWithoutFiles) {
  const absl::StatusOr<EmbeddingSettings> settings = Files().Read();
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->pooling, Pooling::kMean);
  EXPECT_FALSE(settings->normalize);
  EXPECT_EQ(settings->max_input_tokens, 0);
}

TEST(EmbeddingSettings, ReadsPoolingNormalizeAndLength) {
  const struct {
    const char* config;
    Pooling pooling;
  } cases[] = {{R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})", Pooling::kCls},
               {R"({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true})", Pooling::kMean},
               {R"({"pooling_mode_lasttoken": true})", Pooling::kLast},
               {R"({"pooling_mode": "cls"})", Pooling::kCls}};
  for (const auto& c : cases) {
    const Files files;
    files.Modules(std::string(kPoolingModule) + ", " + kNormalizeModule);
    files.Pooling(c.config);
    files.temp.Write("sentence_bert_config.json", R"({"max_seq_length": 77, "do_lower_case": false})");
    const absl::StatusOr<EmbeddingSettings> settings = files.Read();
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->pooling, c.pooling) << c.config;
    EXPECT_TRUE(settings->normalize);
    EXPECT_EQ(settings->max_input_tokens, 77);
  }
}

TEST(EmbeddingSettings, RefusesUnsupportedModulesAndPoolings) {
  const struct {
    std::string modules;
    const char* pooling;
    const char* message;
  } cases[] = {
      {R"({"path": "2_Dense", "type": "sentence_transformers.models.Dense"})", "{}",
       "modules.json: type is 'sentence_transformers.models.Dense'; known are Transformer, Pooling and Normalize"},
      {kPoolingModule, R"({"pooling_mode_max_tokens": true})", "pooling_mode_max_tokens is true"},
      {kPoolingModule, R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})",
       "names 2 of the poolings mean, cls and last token; limit is 1"},
      {kPoolingModule, R"({})", "names 0 of the poolings"},
      {R"({"path": "../1_Pooling", "type": "sentence_transformers.models.Pooling"})", "{}",
       "must be a plain folder name"},
      {"7", "{}", "a module is no object"},
      {"", "{}", "modules.json"},
  };
  for (const auto& c : cases) {
    const Files files;
    files.Modules(c.modules);
    files.Pooling(c.pooling);
    const absl::Status status = files.Read().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.modules;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
  }
  const Files files;
  files.temp.Write("sentence_bert_config.json", R"({"max_seq_length": 0})");
  EXPECT_THAT(std::string(files.Read().status().message()), HasSubstr("max_seq_length is 0; limit is [1, "));
}

TEST(EmbeddingSettings, ReadsPrompts) {
  const Files files;
  files.temp.Write("config_sentence_transformers.json",
                   R"({"prompts": {"query": "Query: ", "document": ""}, "default_prompt_name": "query"})");
  const absl::StatusOr<EmbeddingSettings> settings = files.Read();
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_THAT(settings->prompts,
              testing::ElementsAre(testing::Pair("document", ""), testing::Pair("query", "Query: ")));
  EXPECT_EQ(settings->default_prompt, "query");
  const struct {
    const char* config;
    const char* message;
  } cases[] = {{R"({"prompts": {"query": 1}})", "prompts.query is not a text"},
               {R"({"prompts": [], "default_prompt_name": null})", "prompts is [];"},
               {R"({"default_prompt_name": "query"})", "default_prompt_name is 'query', which prompts does not have"}};
  for (const auto& c : cases) {
    const Files bad;
    bad.temp.Write("config_sentence_transformers.json", c.config);
    EXPECT_THAT(std::string(bad.Read().status().message()), HasSubstr(c.message));
  }
  const Files unpooled;
  unpooled.Modules(kPoolingModule);
  unpooled.Pooling(R"({"pooling_mode_mean_tokens": true, "include_prompt": false})");
  unpooled.temp.Write("config_sentence_transformers.json", R"({"prompts": {"q": "Q: "}, "default_prompt_name": "q"})");
  EXPECT_THAT(std::string(unpooled.Read().status().message()), HasSubstr("leaves prompts out (include_prompt)"));
}

TEST(EmbeddingSettings, ReadsWhatACrossEncoderMakesOfItsLogits) {
  const struct {
    const char* config;
    bool sigmoid;
  } cases[] = {{"{}", true},
               {R"({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}})", true},
               {R"({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}})", false},
               {R"({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"})", false}};
  for (const auto& c : cases) {
    const Files files;
    files.temp.Write("config.json", c.config);
    const absl::StatusOr<EmbeddingSettings> settings = files.Read(1);
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_EQ(settings->sigmoid_scores, c.sigmoid) << c.config;
  }
  const Files files;
  files.temp.Write("config.json", R"({"sbert_ce_default_activation_function": "torch.nn.Softmax"})");
  EXPECT_THAT(std::string(files.Read(1).status().message()),
              HasSubstr("the activation of scores is 'torch.nn.Softmax'; known are Sigmoid and Identity"));
  EXPECT_TRUE(files.Read(0).ok()) << "without a classifier's head there are no scores";
  EXPECT_TRUE(files.Read(3).ok()) << "classifiers of several labels do not rerank";
}

}  // namespace
}  // namespace dunlin::engine
