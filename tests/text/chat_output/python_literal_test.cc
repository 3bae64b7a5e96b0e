// SPDX-License-Identifier: Apache-2.0
// Python literals as JSON. The expected values are json.dumps of what Python 3.11 evaluates each to.
#include "text/chat_output/python_literal.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace dunlin::text {
namespace {

// The JSON of a literal that is all of `text`, or "invalid".
std::string Convert(const std::string& text) {
  PythonLiteral literal;
  std::string json;
  const std::string ended = text + ",";
  for (size_t i = 0; i < ended.size(); ++i) {
    const Scan scan = literal.Take(ended[i], &json);
    if (scan == Scan::kMore) continue;
    if (scan == Scan::kInvalid) return "invalid";
    const std::string rest = ended.substr(scan == Scan::kDone ? i + 1 : i);
    return rest.find_first_not_of(" ,") == std::string::npos ? json : "invalid";
  }
  return "invalid";
}

struct LiteralRow {
  const char* literal;
  const char* json;
};

TEST(PythonLiteral, BecomesJson) {
  constexpr LiteralRow kRows[] = {
      {"1", "1"},
      {"-2.50", "-2.5"},
      {"1.", "1.0"},
      {"-.5", "-0.5"},
      {"+3", "3"},
      {"1e5", "100000.0"},
      {"1.e5", "100000.0"},
      {"True", "true"},
      {"False", "false"},
      {"None", "null"},
      {"null", "null"},
      {"'a'", R"("a")"},
      {R"("it's")", R"("it's")"},
      {R"('say "no"')", R"("say \"no\"")"},
      {R"('\n\t\\\'\"')", R"("\n\t\\'\"")"},
      {R"('\x41\u00e9\U0001F426\101\0z')", "\"A\u00e9\U0001F426A\\u0000z\""},
      {R"('\d\ ')", R"("\\d\\ ")"},
      {"'\u6771\u4eac'", "\"\u6771\u4eac\""},
      {"[]", "[]"},
      {"()", "[]"},
      {"{}", "{}"},
      {"[1, 'a', [2,],]", R"([1, "a", [2]])"},
      {"(1, 2)", "[1, 2]"},
      {"{'a': 1, \"b\": {'c': [True, {'d': ()}]},}", R"({"a": 1, "b": {"c": [true, {"d": []}]}})"},
      {" [ 1 , 2 ] ", "[1, 2]"},
  };
  for (const LiteralRow& row : kRows) {
    const std::string json = Convert(row.literal);
    ASSERT_TRUE(nlohmann::json::accept(json)) << row.literal << ": " << json;
    EXPECT_EQ(nlohmann::json::parse(json), nlohmann::json::parse(row.json)) << row.literal;
  }
}

TEST(PythonLiteral, RefusesWhatIsNone) {
  for (const char* text :
       {"x",       "f()",  "1 + 2", "[1",    "[1}", "{1: 2}", "{'a'}",   "{'a': }",       "[,]",    "'a' 'b'",
        "'''a'''", "r'a'", "0x10",  "1_000", "01",  "--1",    "'\\xg1'", "'\\U00110000'", "'a\nb'", "{'a': 1 'b': 2}",
        "truth",   "*a"}) {
    EXPECT_EQ(Convert(text), "invalid") << text;
  }
  const std::string deep(PythonLiteral::kMaxDepth + 1, '[');
  EXPECT_EQ(Convert(deep + std::string(deep.size(), ']')), "invalid");
}

}  // namespace
}  // namespace dunlin::text
