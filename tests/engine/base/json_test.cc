// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/number_words.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

std::string Nested(size_t depth) {
  return R"({"a":)" + std::string(depth - 1, '[') + "1" + std::string(depth - 1, ']') + "}";
}

TEST(ParseJsonObject, TakesAnObject) {
  const auto value = ParseJsonObject(R"({"a": {"b": [1, 2.5, null]}, "b": "ü"})", "f.json");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)["a"]["b"][0], 1);
}

TEST(ParseJsonObject, RefusesWhatIsNotStrict) {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "not a JSON object"},
      {"1", "not a JSON object"},
      {"{} {}", "not valid JSON"},
      {R"({"a": NaN})", "not valid JSON"},
      {R"({"a": Infinity})", "not valid JSON"},
      {R"({"a": 1e999})", "not valid JSON"},
      {"{\"a\": \"\xFF\"}", "not valid JSON"},
      {std::string("{}\0", 3), "not valid JSON"},
      {R"({"a": 1, "a": 2})", "key 'a' appears twice"},
      {R"({"x": [{"a": 1, "b": 2, "a": 3}]})", "key 'a' appears twice"},
      {R"({"a": 1, "\u0061": 2})", "key 'a' appears twice"},
      {Nested(kMaxJsonDepth + 1), "nested deeper than 32"},
      {Nested(100'000), "nested deeper than 32"},
  };
  for (const auto& c : cases) {
    const auto value = ParseJsonObject(c.text, "f.json");
    ASSERT_FALSE(value.ok()) << c.text.substr(0, 80);
    EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(value.status().message()), HasSubstr(c.message));
    EXPECT_THAT(std::string(value.status().message()), HasSubstr("f.json: "));
  }
  EXPECT_TRUE(ParseJsonObject(Nested(kMaxJsonDepth), "f.json").ok());
  EXPECT_TRUE(ParseJsonObject(R"({"a": {"k": 1}, "b": {"k": 2}})", "f.json").ok());
}

TEST(ParsePythonJsonObject, TakesTheNumbersThatPythonWritesAsWords) {
  const auto value = ParsePythonJsonObject(
      R"({"a": Infinity, "b": [-Infinity, NaN, -1, 0.0, 1e5], "NaN": "\\\"Infinity", "zeros": 1000.00000})", "f.json");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)["a"], std::numeric_limits<double>::infinity());
  EXPECT_EQ((*value)["b"][0], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan((*value)["b"][1].get<double>()));
  EXPECT_EQ((*value)["b"][2], -1);
  EXPECT_EQ((*value)["b"][3], 0.0);
  EXPECT_EQ((*value)["b"][4], 1e5);
  EXPECT_EQ((*value)["NaN"], "\\\"Infinity");
  EXPECT_EQ((*value)["zeros"], 1000.0);
}

TEST(ParsePythonJsonObject, IsAsStrictOtherwise) {
  for (const char* text : {R"({"a": 1NaN})", R"({"a": NaN1})", R"({"a": infinity})", R"({"a": --Infinity})",
                           R"({NaN: 1})", R"({"a": NaN, "a": 1})", R"({"a": 1e999})", "NaN", ""}) {
    const auto value = ParsePythonJsonObject(text, "f.json");
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_THAT(std::string(value.status().message()), HasSubstr("f.json: ")) << text;
  }
}

TEST(NumberWords, ComeBackInAFileThatIsWrittenAgain) {
  const std::string text = R"({"a": Infinity, "b": [-Infinity, NaN], "c": "NaN 0.0001"})";
  const NumberWords words(text);
  nlohmann::ordered_json value = nlohmann::ordered_json::parse(words.AsStrings(text));
  value["d"] = 1;
  EXPECT_EQ(words.WithWords(value.dump()), R"({"a":Infinity,"b":[-Infinity,NaN],"c":"NaN 0.0001","d":1})");
}

// As large as an index of shards may be: a parser that looks through a list at each of its objects would not come back.
TEST(ParseJsonObject, TakesAListOfManyObjects) {
  std::string text = "{\"a\":[{}";
  for (int i = 1; i < 1'000'000; ++i) text += ",{}";
  const auto value = ParseJsonObject(text + "]}", "f.json");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ((*value)["a"].size(), 1'000'000U);
}

TEST(CheckCommentedJson, KnowsKeysThatAppearTwiceAndComments) {
  EXPECT_TRUE(CheckCommentedJson("// a\n{\"a\": /* \"b\": 1 */ {\"b\": 1}, \"b\": 2}", "f.json").ok());
  EXPECT_TRUE(CheckCommentedJson("{\"a\": ", "f.json").ok()) << "what is not JSON is for the parser to say";
  EXPECT_EQ(CheckCommentedJson("{\"a\": 1, // one\n\"a\": 2}", "f.json").message(), "f.json: key 'a' appears twice");
  EXPECT_EQ(CheckCommentedJson(std::string(100'000, '['), "f.json").message(), "f.json: nested deeper than 32");
}

TEST(IsNestedDeeper, CountsWhatIsOpenAtOnce) {
  EXPECT_FALSE(IsNestedDeeper("1", 0));
  EXPECT_FALSE(IsNestedDeeper("[{}, [], {\"a\": 1, \"a\": 2}]", 2));
  EXPECT_TRUE(IsNestedDeeper("[{}, [], {\"a\": 1, \"a\": 2}]", 1));
  EXPECT_TRUE(IsNestedDeeper(std::string(100'000, '['), 64));
  EXPECT_FALSE(IsNestedDeeper("[} [[[[", 2)) << "what follows a fault is not looked at";
}

}  // namespace
}  // namespace dunlin::engine
