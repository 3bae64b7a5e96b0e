// SPDX-License-Identifier: Apache-2.0
// What callers and files may get wrong, through the whole crossing: a code, a message that names it, no crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/text/golden_files.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace dunlin::text {
namespace {

using testing::HasSubstr;

nlohmann::json TokenizerJson(const std::string& style) {
  std::ifstream file(GoldenFolder(style) + "/tokenizer.json");
  return nlohmann::json::parse(file);
}

template <typename T>
void ExpectRefused(const absl::StatusOr<T>& result, absl::StatusCode code, const std::string& part) {
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(part));
}

TEST(BadInput, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const Tokenizer& tokenizer = *Goldens()[0].tokenizer;
  for (const char* text : {"ab\xFF", "ab\xC0\x80", "ab\xED\xA0\x80", "ab\xF4\x90\x80\x80", "ab\xE2\x82"}) {
    ExpectRefused(tokenizer.Encode(text), absl::StatusCode::kInvalidArgument, "text is not UTF-8 at byte 2");
  }
}

TEST(BadInput, RefusesInputsOverTheLimits) {
  const Tokenizer& tokenizer = *Goldens()[0].tokenizer;
  ExpectRefused(tokenizer.Encode(std::string(kMaxTextBytes + 1, 'a')), absl::StatusCode::kInvalidArgument,
                "4194305 bytes; limit is 4194304");
  const std::vector<engine::TokenId> many(kMaxTokenIds + 1, 5);
  ExpectRefused(tokenizer.Decode(many), absl::StatusCode::kInvalidArgument, "1048577 token ids; limit is 1048576");
  ExpectRefused(StreamDecoder::Create(tokenizer, many), absl::StatusCode::kInvalidArgument, "limit is 1048576");
}

TEST(BadInput, AcceptsInputsAtTheLimits) {
  const Tokenizer& tokenizer = *Goldens()[0].tokenizer;
  EXPECT_TRUE(tokenizer.Encode(std::string(kMaxTextBytes, 'a')).ok());
  EXPECT_TRUE(tokenizer.Decode(std::vector<engine::TokenId>(kMaxTokenIds, 5)).ok());
}

TEST(BadInput, NegativeIdsAreRefusedAndUnknownOnesAddNothing) {
  const Tokenizer& tokenizer = *Goldens()[0].tokenizer;
  constexpr engine::TokenId kMax = std::numeric_limits<engine::TokenId>::max();
  const engine::TokenId a = tokenizer.TokenToId("a").value();
  ExpectRefused(tokenizer.Decode(std::vector<engine::TokenId>{1, -7}), absl::StatusCode::kInvalidArgument,
                "token_ids[1] is -7");
  EXPECT_EQ(tokenizer.Decode(std::vector<engine::TokenId>{a, kMax, 5000, a}).value(), "aa");
  for (const engine::TokenId id : {-1, std::numeric_limits<engine::TokenId>::min(), kMax, 5000}) {
    ExpectRefused(tokenizer.TokenText(id), absl::StatusCode::kOutOfRange, "no token has id " + std::to_string(id));
    ExpectRefused(tokenizer.TokenBytes(id), absl::StatusCode::kOutOfRange, "no token has id " + std::to_string(id));
  }
}

TEST(BadInput, MissingDirectoriesAndWrongLimitsAreNamed) {
  ExpectRefused(Tokenizer::Load(GoldenFolder("no_such_style"), 0), absl::StatusCode::kNotFound, "tokenizer.json");
  ExpectRefused(Tokenizer::Load(GoldenFolder("byte_level_gpt2"), -1), absl::StatusCode::kInvalidArgument,
                "vocab_limit is -1");
  ExpectRefused(Tokenizer::Load(GoldenFolder("byte_level_gpt2"), 100), absl::StatusCode::kInvalidArgument,
                "the model has 100 token ids");
}

TEST(BadInput, BrokenFilesAreNamed) {
  nlohmann::json file = TokenizerJson("byte_level_gpt2");
  file["model"]["merges"][3] = {"a", "zzq"};
  ExpectRefused(Tokenizer::FromJson(file.dump(), "", 0), absl::StatusCode::kInvalidArgument,
                "model.merges[3] names \"zzq\"");
  ExpectRefused(Tokenizer::FromJson("", "", 0), absl::StatusCode::kInvalidArgument, "tokenizer.json: EOF");
  ExpectRefused(Tokenizer::FromJson("{}", "{", 0), absl::StatusCode::kInvalidArgument, "tokenizer_config.json");
}

// The library answers some files and patterns with a panic: that is an error like any other here.
TEST(BadInput, CatastrophicBacktrackingIsAnErrorNotACrash) {
  nlohmann::json file = TokenizerJson("byte_level_llama3");
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a+)+$"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const auto tokenizer = Tokenizer::FromJson(file.dump(), "", 0);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::string secret = std::string(64, 'a') + "b";
  const auto ids = (*tokenizer)->Encode(secret);
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInternal) << ids.status();
  EXPECT_THAT(std::string(ids.status().message()), testing::Not(HasSubstr("aaaa")));
  EXPECT_TRUE((*tokenizer)->Encode("aa").ok());
}

}  // namespace
}  // namespace dunlin::text
