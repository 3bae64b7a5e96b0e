// SPDX-License-Identifier: Apache-2.0
// Text of one output over the golden tokenizers: whole characters, stop strings held back, stop tokens silent. Whatever
// the stop strings, what was sent never contains one, and is a prefix of the whole text.
#include "server/serving/output/output_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace dunlin::server {
namespace {

std::unique_ptr<text::Tokenizer> Load(const char* style) {
  auto loaded = text::Tokenizer::Load(std::string(DUNLIN_SOURCE_DIR "/tests/golden/text/") + style, 0);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

struct Produced {
  std::string text;
  std::vector<std::string> deltas;
  bool stopped = false;
  int32_t num_tokens = 0;
};

Produced Produce(const OutputText::Options& options, const std::vector<int32_t>& ids) {
  absl::StatusOr<OutputText> output = OutputText::Create(options);
  EXPECT_TRUE(output.ok()) << output.status();
  Produced produced;
  const auto take = [&produced](const OutputChunk& chunk) {
    produced.text += chunk.text;
    produced.deltas.push_back(chunk.text);
  };
  for (const int32_t id : ids) {
    OutputChunk chunk;
    EXPECT_TRUE(output->Add({.id = id}, {}, &chunk).ok());
    take(chunk);
    if (output->stopped()) break;
  }
  OutputChunk last;
  EXPECT_TRUE(output->Finish(&last).ok());
  take(last);
  produced.stopped = output->stopped();
  produced.num_tokens = output->num_tokens();
  return produced;
}

TEST(OutputText, EveryDeltaIsWholeCharactersAndTheSumIsTheWhole) {
  for (const char* style : {"byte_level_gpt2", "byte_level_llama3", "sentencepiece_llama2"}) {
    const auto tokenizer = Load(style);
    const std::string text = "flocks 😀 黒いお腹 naïve — ok";
    const auto ids = tokenizer->Encode(text, {.add_special_tokens = false});
    ASSERT_TRUE(ids.ok());
    OutputText::Options options;
    options.tokenizer = tokenizer.get();
    const Produced produced = Produce(options, *ids);
    EXPECT_EQ(produced.text, *tokenizer->Decode(*ids)) << style;
    for (const std::string& delta : produced.deltas) EXPECT_TRUE(text::IsValidUtf8(delta)) << style;
  }
}

TEST(OutputText, NeverSendsAStopStringWhateverItIs) {
  const auto tokenizer = Load("byte_level_gpt2");
  const std::string text = "The dunlin is a small wader that breeds in the north and winters in the south. 😀 done.";
  const std::vector<int32_t> ids = *tokenizer->Encode(text, {.add_special_tokens = false});
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const size_t begin = random() % text.size();
    const std::string stop = text.substr(begin, 1 + random() % 8);
    if (!text::IsValidUtf8(stop)) continue;
    OutputText::Options options;
    options.tokenizer = tokenizer.get();
    options.stop_strings = {"never there", stop};
    const Produced produced = Produce(options, ids);
    EXPECT_TRUE(produced.stopped) << stop;
    EXPECT_EQ(produced.text, text.substr(0, text.find(stop))) << stop;
    options.include_stop = true;
    EXPECT_EQ(Produce(options, ids).text, text.substr(0, text.find(stop) + stop.size())) << stop;
    // The ids go on until the stop string is complete, and not a token further.
    const std::string sent = *tokenizer->Decode(std::span(ids).first(static_cast<size_t>(produced.num_tokens)));
    const std::string before = *tokenizer->Decode(std::span(ids).first(static_cast<size_t>(produced.num_tokens) - 1));
    EXPECT_NE(sent.find(stop), std::string::npos) << stop;
    EXPECT_EQ(before.find(stop), std::string::npos) << stop;
  }
}

TEST(OutputText, WhatWasHeldBackComesAtTheEnd) {
  const auto tokenizer = Load("byte_level_gpt2");
  OutputText::Options options;
  options.tokenizer = tokenizer.get();
  options.stop_strings = {"abcX"};
  const Produced produced = Produce(options, {65, 66, 67});  // "a" "b" "c": all of it could become the stop string
  EXPECT_FALSE(produced.stopped);
  EXPECT_EQ(produced.text, "abc");
  EXPECT_EQ(produced.deltas.back(), "abc");
}

TEST(OutputText, AnUnfinishedCharacterBecomesAReplacementAndMayStillStop) {
  const auto tokenizer = Load("byte_level_gpt2");
  const std::vector<int32_t> cut = {65, tokenizer->TokenToId("ð").value()};  // "a" and byte 0xF0, which begins an emoji
  OutputText::Options options;
  options.tokenizer = tokenizer.get();
  EXPECT_EQ(Produce(options, cut).text, "a\xEF\xBF\xBD");
  options.stop_strings = {"\xEF\xBF\xBD"};
  const Produced produced = Produce(options, cut);
  EXPECT_TRUE(produced.stopped);
  EXPECT_EQ(produced.text, "a");
}

TEST(OutputText, LogprobsCarryTheBytesOfTokensAlsoOfAPartOfACharacter) {
  const auto tokenizer = Load("byte_level_gpt2");
  const int32_t part = tokenizer->TokenToId("ð").value();  // byte 0xF0, which begins an emoji
  OutputText::Options options;
  options.logprobs = true;
  options.token_bytes = tokenizer.get();
  absl::StatusOr<OutputText> output = OutputText::Create(options);
  ASSERT_TRUE(output.ok());
  OutputChunk chunk;
  const engine::TopLogprob top[] = {{65, -0.5F}, {1 << 20, -1.5F}, {part, -2.0F}};
  EXPECT_TRUE(output->Add({.id = part, .logprob = -2.0F, .rank = 3, .num_top = 3}, top, &chunk).ok());
  const TokenLogprobs::Entry entry = chunk.logprobs[0];
  EXPECT_EQ(entry.rank, 3);
  EXPECT_EQ(entry.bytes, "\xF0");
  EXPECT_EQ(chunk.logprobs.BytesOf(entry.top[0]), "a");
  EXPECT_EQ(chunk.logprobs.BytesOf(entry.top[1]), "") << "no token has this id";
  EXPECT_EQ(chunk.logprobs.BytesOf(entry.top[2]), "\xF0");
}

TEST(OutputText, ByteTokensOfSentencePieceHaveTheirByteAndWordsTheirSpace) {
  const auto tokenizer = Load("sentencepiece_llama2");
  TokenLogprobs logprobs;
  for (const auto& [token, bytes] : {std::pair{"<0xF0>", "\xF0"}, {"▁the", " the"}}) {
    const std::optional<engine::TokenId> id = tokenizer->TokenToId(token);
    ASSERT_TRUE(id.has_value()) << token;
    logprobs.Add({.id = *id}, {}, tokenizer.get());
    EXPECT_EQ(logprobs[logprobs.size() - 1].bytes, bytes) << token;
  }
}

TEST(OutputText, AnEchoedPromptComesFirstAndDoesNotStop) {
  const auto tokenizer = Load("byte_level_gpt2");
  const std::string text = "The dunlin 😀 flies";
  const std::vector<int32_t> ids = *tokenizer->Encode(text, {.add_special_tokens = false});
  for (size_t prompt_len = 1; prompt_len < ids.size(); ++prompt_len) {  // also in the middle of the emoji
    OutputText::Options options;
    options.tokenizer = tokenizer.get();
    options.echo = true;
    options.prompt_tail = std::span(ids).first(prompt_len);
    options.stop_strings = {"The"};
    absl::StatusOr<OutputText> output = OutputText::Create(options);
    ASSERT_TRUE(output.ok());
    OutputChunk chunk;
    while (output->TakeEcho(4, &chunk)) {
      EXPECT_TRUE(text::IsValidUtf8(chunk.text)) << chunk.text;
    }
    EXPECT_EQ(chunk.text, text.substr(0, chunk.text.size()));
    EXPECT_FALSE(output->TakeEcho(4, &chunk)) << "once";
    for (size_t i = prompt_len; i < ids.size(); ++i) EXPECT_TRUE(output->Add({.id = ids[i]}, {}, &chunk).ok());
    EXPECT_TRUE(output->Finish(&chunk).ok());
    EXPECT_EQ(chunk.text, text);
    EXPECT_EQ(output->num_tokens(), static_cast<int32_t>(ids.size() - prompt_len));
  }
}

TEST(OutputText, WithoutATokenizerThereAreIdsAlone) {
  OutputText::Options options;
  options.logprobs = true;
  absl::StatusOr<OutputText> output = OutputText::Create(options);
  ASSERT_TRUE(output.ok());
  OutputChunk chunk;
  const engine::TopLogprob top[] = {{4, -0.5F}, {9, -1.5F}};
  EXPECT_TRUE(output->Add({.id = 4, .logprob = -0.5F, .num_top = 2}, top, &chunk).ok());
  EXPECT_TRUE(output->Finish(&chunk).ok());
  EXPECT_EQ(chunk.text, "");
  ASSERT_EQ(chunk.logprobs.size(), 1U);
  EXPECT_EQ(chunk.logprobs[0].top[1].token_id, 9);
}

}  // namespace
}  // namespace dunlin::server
