// SPDX-License-Identifier: Apache-2.0
#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/text/golden_files.h"
#include "text/utf8.h"

namespace dunlin::text {
namespace {

// Pushes `ids` in chunks of 1 to max_chunk. Every delta has to be whole characters.
std::string Streamed(const Tokenizer& tokenizer, std::span<const engine::TokenId> ids, bool skip_special,
                     size_t max_chunk, std::mt19937& random) {
  StreamDecoder stream = StreamDecoder::Create(tokenizer, {}, skip_special).value();
  std::string text;
  for (size_t at = 0; at < ids.size();) {
    const size_t chunk = std::min(ids.size() - at, 1 + random() % max_chunk);
    const std::string delta = stream.Push(ids.subspan(at, chunk)).value();
    EXPECT_TRUE(IsValidUtf8(delta));
    text += delta;
    at += chunk;
  }
  return text + stream.Finish().value();
}

TEST(StreamDecoder, DeltasConcatenateToTheDecodedText) {
  std::mt19937 random(1);
  for (const Golden& golden : Goldens()) {
    for (const DecodeCase& entry : golden.decode) {
      for (const size_t max_chunk : {1, 3, 8}) {
        EXPECT_EQ(Streamed(*golden.tokenizer, entry.ids, entry.skip_special, max_chunk, random), entry.text)
            << golden.style << " chunks up to " << max_chunk;
      }
    }
  }
}

TEST(StreamDecoder, EverySplitGivesTheSameText) {
  for (const Golden& golden : Goldens()) {
    for (const DecodeCase& entry : golden.decode) {
      const std::span<const engine::TokenId> ids(entry.ids);
      for (size_t cut = 0; cut <= ids.size(); ++cut) {
        StreamDecoder stream = StreamDecoder::Create(*golden.tokenizer, {}, entry.skip_special).value();
        std::string text = stream.Push(ids.first(cut)).value();
        text += stream.Push(ids.subspan(cut)).value();
        text += stream.Finish().value();
        ASSERT_EQ(text, entry.text) << golden.style << " cut at " << cut;
      }
    }
  }
}

TEST(StreamDecoder, RandomIdsGiveValidTextAndLoseNothing) {
  std::mt19937 random(2);
  for (const Golden& golden : Goldens()) {
    const auto vocab_size = static_cast<unsigned>(golden.tokenizer->vocab_size());
    for (int round = 0; round < 500; ++round) {
      std::vector<engine::TokenId> ids(random() % 40);
      const unsigned limit = round % 2 == 0 ? vocab_size + 10 : 270;  // the first ids are single bytes
      for (engine::TokenId& id : ids) id = static_cast<engine::TokenId>(random() % limit);
      const std::string whole = golden.tokenizer->Decode(ids).value();
      EXPECT_TRUE(IsValidUtf8(whole));
      EXPECT_EQ(Streamed(*golden.tokenizer, ids, true, 2, random), whole) << golden.style;
    }
  }
}

TEST(StreamDecoder, ContinuesAPrompt) {
  const std::string prompt = "The dunlin is a small";
  const std::string output = " wader, été 😀";
  for (const Golden& golden : Goldens()) {
    const auto whole = golden.tokenizer->Encode(prompt + output).value();
    const auto context_size = golden.tokenizer->Encode(prompt).value().size();
    const std::span<const engine::TokenId> ids(whole);
    for (const size_t context_ids : {context_size, std::min<size_t>(16, context_size), size_t{1}}) {
      const auto context = ids.subspan(context_size - context_ids, context_ids);
      StreamDecoder stream = StreamDecoder::Create(*golden.tokenizer, context).value();
      std::string text;
      for (const engine::TokenId id : ids.subspan(context_size)) text += stream.Push(id).value();
      text += stream.Finish().value();
      EXPECT_EQ(text, output) << golden.style << " with " << context_ids << " ids of context";
    }
  }
}

TEST(StreamDecoder, ARefusedCallLeavesTheStateUnchanged) {
  const Tokenizer& tokenizer = *Goldens()[0].tokenizer;
  const auto ids = tokenizer.Encode("😀").value();
  ASSERT_GE(ids.size(), 1U);
  StreamDecoder stream = StreamDecoder::Create(tokenizer).value();
  std::string text = stream.Push(std::span(ids).first(ids.size() - 1)).value();
  EXPECT_EQ(stream.Push(-1).status().code(), absl::StatusCode::kInvalidArgument);
  text += stream.Push(ids.back()).value();
  text += stream.Finish().value();
  EXPECT_EQ(text, "😀");
  EXPECT_EQ(stream.Finish().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(stream.Push(1).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(StreamDecoder, OutlivesItsTokenizer) {
  auto tokenizer = Tokenizer::Load(GoldenFolder("byte_level_gpt2"), 0).value();
  const auto ids = tokenizer->Encode("hello").value();
  StreamDecoder stream = StreamDecoder::Create(*tokenizer).value();
  tokenizer.reset();
  const std::string text = stream.Push(ids).value();
  EXPECT_EQ(text + stream.Finish().value(), "hello");
}

TEST(StreamDecoder, LimitsTheNumberOfIds) {
  StreamDecoder stream = StreamDecoder::Create(*Goldens()[0].tokenizer).value();
  const std::vector<engine::TokenId> most(kMaxTokenIds, 5);
  EXPECT_TRUE(stream.Push(most).ok());
  EXPECT_EQ(stream.Push(5).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(stream.Finish().ok());
}

}  // namespace
}  // namespace dunlin::text
