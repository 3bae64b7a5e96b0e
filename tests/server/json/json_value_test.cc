// SPDX-License-Identifier: Apache-2.0
// Strict JSON: what is refused and where, what readers do with values of other types, and what is written escaped.
#include "server/json/json_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/base/string_view.h"
#include "server/json/json_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using testing::HasSubstr;

std::string Message(const absl::Status& status) {
  return std::string(engine::StdView(status.message()));
}

std::string Repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out.append(text);
  return out;
}

struct BadBody {
  std::string body;
  const char* message;
  const char* reason;
};

TEST(ParseBody, RefusesWhatIsNotStrictJson) {
  const BadBody bodies[] = {
      {"", "the body is empty, not a JSON object", "MALFORMED_MESSAGE"},
      {"secret", "the body is not valid JSON: error at byte 1", "MALFORMED_MESSAGE"},
      {"{\"a\":1} x", "the body is not valid JSON: error at byte 9", "MALFORMED_MESSAGE"},
      {"{\"a\":NaN}", "the body is not valid JSON: error at byte 6", "MALFORMED_MESSAGE"},
      {std::string("{\"a\":1}\0{", 9), "the body is not valid JSON: error at byte 8", "MALFORMED_MESSAGE"},
      {"{\"a\":\"\xff\"}", "the body is not UTF-8: error at byte 7", "MALFORMED_MESSAGE"},
      {"{\"a\":\"\\ud800\"}", "the body is not valid JSON: error at byte 13", "MALFORMED_MESSAGE"},
      {"[1]", "the body is not a JSON object", "MALFORMED_MESSAGE"},
      {R"({"a":{"b":[{"c":1,"c":2}]}})", "a.b[0].c appears twice", "INVALID_FIELD"},
      {R"({"a":[0,1e999]})", "a[1] is a number out of range; limit is IEEE 754 double precision", "INVALID_FIELD"},
      {"{\"a\":" + Repeated("[", 64), "nested too deeply; limit is 64", "INVALID_FIELD"},
  };
  for (const BadBody& bad : bodies) {
    const absl::StatusOr<Json> json = ParseBody(bad.body);
    ASSERT_EQ(json.status().code(), absl::StatusCode::kInvalidArgument) << bad.body;
    EXPECT_THAT(Message(json.status()), HasSubstr(bad.message)) << bad.body;
    EXPECT_EQ(ReasonName(json.status()), bad.reason) << bad.body;
    EXPECT_THAT(Message(json.status()), testing::Not(HasSubstr("secret")));
  }
}

TEST(ParseBody, BoundsKeysAndValues) {
  std::string keys = "{\"a\":{\"0\":0";
  for (int i = 1; i < 4096; ++i) keys += ",\"" + std::to_string(i) + "\":0";
  EXPECT_TRUE(ParseBody(keys + "}}").ok());
  EXPECT_EQ(Message(ParseBody(keys + ",\"x\":0}}").status()), "a.x makes too many keys of one object; limit is 4096");
  const std::string values = "{\"a\":[0" + Repeated(",0", (size_t{1} << 20) - 3);
  EXPECT_TRUE(ParseBody(values + "]}").ok());
  std::string lists = R"({"a":[{})";
  for (size_t bytes = 0; bytes < kMaxBodyTreeBytes; bytes += 128) lists += ",{}";
  EXPECT_EQ(Message(ParseBody(lists + "]}").status()),
            "the body holds too many values, lists and objects; limit is 48 MiB of memory for them");
  const std::string text = Repeated(R"([{,:\")", size_t{1} << 19);
  EXPECT_TRUE(ParseBody(R"({"a":")" + text + R"("})").ok()) << "what stands in strings does not count";
  EXPECT_EQ(Message(ParseBody(values + ",0]}").status()), "a[1048574] makes too many values; limit is 1048576");
}

TEST(ParseBody, KeepsTheOrderOfKeysAndWhatStringsHold) {
  const absl::StatusOr<Json> json = ParseBody(R"({"z":1,"a":"\u0000\n\ud83d\ude00","m":[true,null,-1.5]})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(DumpJson(*json), "{\"z\":1,\"a\":\"\\u0000\\n\xF0\x9F\x98\x80\",\"m\":[true,null,-1.5]}");
}

struct BadValue {
  const char* json;
  void (*read)(const JsonValue&);
  const char* message;
};

const BadValue kBadValues[] = {
    {R"("x")", [](const JsonValue& v) { v.Int(); }, "f is a string; limit is an integer in [-2147483648, 2147483647]"},
    {"1.5", [](const JsonValue& v) { v.Int(); }, "f is 1.5; limit is an integer in [-2147483648, 2147483647]"},
    {"2147483648.0", [](const JsonValue& v) { v.Int(); },
     "f is 2147483648.0; limit is an integer in [-2147483648, 2147483647]"},
    {"9007199254740994.0", [](const JsonValue& v) { v.Unsigned64(); },
     "f is 9.007199254740994e+15; limit is an integer in [-2^63, 2^64)"},
    {"2147483648", [](const JsonValue& v) { v.Int(); },
     "f is 2147483648; limit is an integer in [-2147483648, 2147483647]"},
    {"18446744073709551615", [](const JsonValue& v) { v.Int(); },
     "f is 18446744073709551615; limit is an integer in [-2147483648, 2147483647]"},
    {"-2147483649", [](const JsonValue& v) { v.Int(); },
     "f is -2147483649; limit is an integer in [-2147483648, 2147483647]"},
    {"0.5", [](const JsonValue& v) { v.Unsigned64(); }, "f is 0.5; limit is an integer in [-2^63, 2^64)"},
    {"1e39", [](const JsonValue& v) { v.Number(); }, "f is 1e+39; limit is single precision"},
    {"true", [](const JsonValue& v) { v.Number(); }, "f is true; limit is a number"},
    {"1", [](const JsonValue& v) { v.Bool(); }, "f is 1; limit is true or false"},
    {"[]", [](const JsonValue& v) { v.Text(); }, "f is an array; limit is a string"},
    {R"(["a",1])", [](const JsonValue& v) { v.Texts(); }, "f[1] is 1; limit is a string"},
    {"{}", [](const JsonValue& v) { v.TextOrTexts(); }, "f is an object; limit is a string or an array of strings"},
    {R"([1,"a"])", [](const JsonValue& v) { v.TokenIds(); },
     "f[1] is a string; limit is an integer in [-2147483648, 2147483647]"},
};

TEST(JsonValue, ReadersNameThePlaceAndTheLimit) {
  for (const BadValue& bad : kBadValues) {
    const absl::StatusOr<Json> json = ParseBody(std::string("{\"f\":") + bad.json + "}");
    ASSERT_TRUE(json.ok()) << bad.json;
    absl::Status status;
    const JsonValue root(*json, &status);
    bad.read(root.At("f"));
    EXPECT_EQ(Message(status), bad.message);
    const std::string first = Message(status);
    root.At("g").Text();
    EXPECT_EQ(Message(status), first) << "the first error is kept";
  }
}

TEST(JsonValue, IntegersMayBeWrittenWithAPoint) {
  const absl::StatusOr<Json> json = ParseBody(R"({"f":[3.0,-0.0,4e1,9007199254740992.0,-1.0,[2.0,5]]})");
  ASSERT_TRUE(json.ok());
  absl::Status status;
  const JsonValue root(*json, &status);
  const JsonValue list = root.At("f");
  EXPECT_EQ(list.At(size_t{0}).Int(), 3);
  EXPECT_EQ(list.At(1).Int(), 0);
  EXPECT_EQ(list.At(2).AtLeast(40), 40);
  EXPECT_EQ(list.At(3).Unsigned64(), uint64_t{1} << 53);
  EXPECT_EQ(list.At(4).Unsigned64(), UINT64_MAX);
  EXPECT_THAT(list.At(5).TokenIds(), testing::ElementsAre(2, 5));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(JsonText, EscapesWhatJsonDemands) {
  std::string out;
  AppendJsonString(std::string_view("a\"\\\n\r\t\x01\0\x7f\xE2\x82\xAC", 12), &out);
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\r\\t\\u0001\\u0000\x7f\xE2\x82\xAC\"");
  EXPECT_EQ(Json::parse(out).get<std::string>(), std::string("a\"\\\n\r\t\x01\0\x7f\xE2\x82\xAC", 12));
  EXPECT_EQ(Utf8OrReplaced("a\xE2\x82"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(Utf8OrReplaced("\xFF\xE2\x82\xAC"), "\xEF\xBF\xBD\xE2\x82\xAC");
}

TEST(JsonText, NumbersReadBackAsTheSameValue) {
  for (const float value : {0.0F, -0.5F, 1.0F, 3.4e38F, 1.2e-38F, -17.25F, 0.1F, 1e10F}) {
    std::string out;
    AppendJsonNumber(value, &out);
    EXPECT_EQ(Json::parse(out).get<float>(), value) << out;
    EXPECT_TRUE(Json::parse(out).is_number_float()) << out;
  }
  std::string out;
  AppendJsonNumber(-std::numeric_limits<float>::infinity(), &out);
  EXPECT_EQ(out, "-9999.0");
}

}  // namespace
}  // namespace dunlin::server
