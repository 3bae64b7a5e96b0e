// SPDX-License-Identifier: Apache-2.0
// A tokenizer and a chat template out of a GGUF file: the ids are those of the vocabulary's goldens.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/load/gguf_model.h"
#include "tests/engine/base/temp_directory.h"
#include "tests/engine/model/gguf/gguf_writer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

json ReadGolden(const std::string& name) {
  std::ifstream file(DUNLIN_SOURCE_DIR "/tests/golden/text/vocabularies/" + name);
  return json::parse(file);
}

// The metadata that llama.cpp's converter writes for such a vocabulary.
std::string FileOf(const json& vocabulary) {
  GgufWriter writer;
  writer.AddText("general.architecture", "llama").AddUnsigned("llama.attention.head_count", 4);
  writer.AddUnsigned("llama.embedding_length", 64).AddUnsigned("llama.block_count", 1);
  const auto tokens = vocabulary.at("tokens").get<std::vector<std::string>>();
  writer.AddText("tokenizer.ggml.model", vocabulary.at("model").get<std::string>());
  writer.AddTexts("tokenizer.ggml.tokens", tokens);
  if (!vocabulary.at("scores").empty()) writer.AddFloats("tokenizer.ggml.scores", vocabulary.at("scores"));
  const auto merges = vocabulary.value("merges", std::vector<std::string>());
  if (!merges.empty()) writer.AddTexts("tokenizer.ggml.merges", merges);
  writer.AddFloats("tokenizer.ggml.token_type", vocabulary.at("types"));
  const std::pair<const char*, const char*> ids[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                     {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                     {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                     {"cls_token", "tokenizer.ggml.cls_token_id"},
                                                     {"sep_token", "tokenizer.ggml.seperator_token_id"}};
  for (const auto& [field, key] : ids) {
    if (vocabulary.contains(field)) writer.AddUnsigned(key, vocabulary.at(field));
  }
  writer.AddText("tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}");
  return writer.Bytes();
}

void ExpectGoldenIds(const text::Tokenizer& tokenizer, const std::string& style) {
  const json cases = ReadGolden(style + "/cases.json");
  for (const json& golden : cases.at("encode")) {
    const text::EncodeOptions options{.add_special_tokens = golden.at("add_special_tokens"),
                                      .parse_special = golden.at("parse_special")};
    const auto ids = tokenizer.Encode(golden.at("text").get<std::string>(), options);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, golden.at("ids").get<std::vector<TokenId>>()) << golden;
  }
}

// The memory plan knows the vocabulary by this estimate.
void ExpectEstimateOfText(const std::string& path, const TextFiles& files) {
  const auto text = files.ReadFile(text::kVocabularyFile, text::kMaxTokenizerJsonBytes);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto estimate = EstimateGgufText(path);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  const auto size = static_cast<double>(text->size());
  EXPECT_NEAR(static_cast<double>(*estimate), size, 0.15 * size + 512);
}

void ExpectGoldenIdsOfAFile(const std::string& style) {
  const json vocabulary = ReadGolden(style + "/vocabulary.json");
  const TempDirectory temp;
  temp.Write("model.gguf", FileOf(vocabulary));
  const auto files = OpenModelFiles(temp.File("model.gguf"));
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_TRUE(text::Tokenizer::IsIn(**files));
  ExpectEstimateOfText(temp.File("model.gguf"), **files);
  const auto tokenizer = text::Tokenizer::Load(**files, static_cast<int64_t>(vocabulary.at("tokens").size()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectGoldenIds(**tokenizer, style);
}

TEST(GgufTokenizer, GivesTheIdsOfASentencePieceVocabulary) {
  ExpectGoldenIdsOfAFile("sentencepiece");
}

TEST(GgufTokenizer, GivesTheIdsOfPiecesWithMerges) {
  ExpectGoldenIdsOfAFile("merged_pieces");
}

TEST(GgufTokenizer, GivesTheIdsOfAWordPieceVocabulary) {
  ExpectGoldenIdsOfAFile("wordpiece");
}

void ExpectGoldenIdsOfADirectory(const std::string& style, const std::vector<const char*>& files) {
  const TempDirectory temp;
  for (const char* name : files) {
    std::ifstream file(DUNLIN_SOURCE_DIR "/tests/golden/text/vocabularies/" + style + "/" + name, std::ios::binary);
    temp.Write(name, std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>()));
  }
  const auto tokenizer = text::Tokenizer::Load(temp.path(), 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectGoldenIds(**tokenizer, style);
}

TEST(GgufTokenizer, GivesTheIdsOfASentencePieceModelInADirectory) {
  ExpectGoldenIdsOfADirectory("sentencepiece", {"tokenizer.model"});
}

TEST(GgufTokenizer, GivesTheIdsOfATiktokenVocabularyInADirectory) {
  ExpectGoldenIdsOfADirectory("tiktoken", {"tiktoken.model", "tokenizer_config.json"});
}

TEST(GgufTokenizer, HasTheChatTemplateOfTheFile) {
  const json vocabulary = ReadGolden("sentencepiece/vocabulary.json");
  const TempDirectory temp;
  temp.Write("model.gguf", FileOf(vocabulary));
  const auto files = OpenModelFiles(temp.File("model.gguf"));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto tokenizer = text::Tokenizer::Load(**files, 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto chat = text::ChatTemplate::Load(**files, "");
  ASSERT_TRUE(chat.ok()) << chat.status();
  text::ChatInput input;
  input.messages.emplace_back().content = "hi";
  const auto rendered = (*chat)->Render(**tokenizer, input, {});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(rendered->text, "<s>hi");
}

}  // namespace
}  // namespace dunlin::engine
