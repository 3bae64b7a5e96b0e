// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& at) {
  return absl::StrCat("\"", name, R"(":{"dtype":")", dtype, R"(","shape":[)", shape, R"(],"data_offsets":[)", at, "]}");
}

TEST(SafetensorsHeader, ReadsTensorsSortedByName) {
  const std::string header =
      absl::StrCat("{", Entry("b", "F32", "2,3", "0,24"), ",", R"("__metadata__":{"k":"v"},)",
                   Entry("a", "BF16", "", "24,26"), ",", Entry("empty", "F16", "0,4", "26,26"), "}   ");
  const auto tensors = ParseSafetensorsHeader(header, 26);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3U);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_TRUE((*tensors)[0].shape.empty());
  EXPECT_EQ((*tensors)[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*tensors)[1].begin, 0U);
  EXPECT_STREQ((*tensors)[1].dtype->name, "F32");
}

TEST(SafetensorsHeader, ToleratesOddOffsetsAndKnowsTheSmallTypes) {
  const std::string header = absl::StrCat("{", Entry("x", "U8", "3", "0,3"), ",", Entry("y", "F32", "1", "3,7"), ",",
                                          Entry("z", "F4", "4", "7,9"), "}");
  EXPECT_TRUE(ParseSafetensorsHeader(header, 9).ok());
}

TEST(SafetensorsHeader, RefusesWhatIsMalformed) {
  const struct {
    std::string header;
    uint64_t data_bytes;
    const char* message;
  } cases[] = {
      {"", 0, "does not start with '{'"},
      {" {}", 0, "does not start with '{'"},
      {"[]", 0, "does not start with '{'"},
      {"{", 0, "not valid JSON"},
      {"{}x", 0, "not valid JSON"},
      {std::string("{}\0\0", 4), 0, "NUL"},
      {"{\"\xFF\":1}", 0, "not valid JSON"},
      {R"({"a":)", 0, "not valid JSON"},
      {"{}", 1, "bytes are left over"},
      {R"({"a":1})", 0, "has a number"},
      {R"({"a":null})", 0, "has null"},
      {R"({"a":[]})", 0, "has an array"},
      {R"({"a":"x"})", 0, "has a string"},
      {R"({"a":true})", 0, "has a boolean"},
      {R"({"a":{}})", 0, "lacks dtype, shape or data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "lacks dtype, shape or data_offsets"},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "lacks dtype"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "lacks dtype"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "more than two numbers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "unknown field 'x'"},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "'dtype' twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", 4, "'shape' twice"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, "has an array"},
      {R"({"a":{"dtype":"F32","shape":{"b":1},"data_offsets":[0,4]}})", 4, "has an object"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "has a number"},
      {R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4, "has a number"},
      {R"({"a":{"dtype":"F32","shape":"1","data_offsets":[0,4]}})", 4, "has a string"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "has a string"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ twice"},
      {R"({"__metadata__":{"a":1}})", 0, "has a number"},
      {R"({"__metadata__":{"a":{}}})", 0, "has an object"},
      {R"({"__metadata__":[]})", 0, "has an array"},
      {R"({"__metadata__":"x"})", 0, "has a string"},
      {R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4, "has an array"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{}})", 4, "lacks"},
      {"{" + Entry("a", "F31", "1", "0,4") + "}", 4, "unknown dtype 'F31'"},
      {"{" + Entry("a", "F32", "-1", "0,4") + "}", 4, "a negative number"},
      {"{" + Entry("a", "F32", "1.5", "0,4") + "}", 4, "a fraction"},
      {"{" + Entry("a", "F32", "1e1", "0,40") + "}", 40, "a fraction"},
      {"{" + Entry("a", "F32", "18446744073709551616", "0,4") + "}", 4, "a fraction"},
      {"{" + Entry("a", "F32", "9223372036854775808", "0,4") + "}", 4, "a dimension above 2^63"},
      {"{" + Entry("a", "F32", "4294967296,4294967296", "0,0") + "}", 0, "size overflows"},
      {"{" + Entry("a", "F32", "4611686018427387904", "0,0") + "}", 0, "size overflows"},
      {"{" + Entry("a", "F32", "1,1,1,1,1,1,1,1,1", "0,4") + "}", 4, "too many dimensions"},
      {"{" + Entry("a", "F32", "2", "0,4") + "}", 4, "needs 8 bytes by shape and dtype; data_offsets give 4"},
      {"{" + Entry("a", "F4", "3", "0,1") + "}", 1, "by shape and dtype"},
      {"{" + Entry("a", "F32", "1", "4,0") + "}", 4, "begins at 4 and ends at 0"},
      {"{" + Entry("a", "F32", "1", "4,8") + "}", 8, "a hole"},
      {"{" + Entry("a", "F32", "1", "0,4") + "}", 3, "cut short"},
      {"{" + Entry("a", "F32", "1", "0,4") + "}", 5, "left over"},
      {"{" + Entry("a", "F32", "1", "0,4") + "," + Entry("b", "F32", "1", "2,6") + "}", 6, "they overlap"},
      {"{" + Entry("a", "F32", "1", "0,4") + "," + Entry("b", "F32", "1", "0,4") + "}", 4, "they overlap"},
      {"{" + Entry("a", "F32", "1", "0,4") + "," + Entry("b", "F32", "1", "8,12") + "}", 12, "a hole"},
      {"{" + Entry("a", "F32", "1", "0,4") + "," + Entry("a", "F32", "1", "4,8") + "}", 8, "'a' appears twice"},
      {"{" + Entry("a", "F32", "0", "0,0") + "," + Entry("\\u0061", "F32", "0", "0,0") + "}", 0, "'a' appears twice"},
      {"{" + Entry(std::string(513, 'n'), "F32", "1", "0,4") + "}", 4, "a tensor name of 513 bytes; limit is 512"},
      {std::string(kMaxHeaderBytes + 1, '{'), 0, "header has 16777217 bytes; limit is 16777216"},
      {std::string(kMaxHeaderBytes, '{'), 0, "not valid JSON"},
      {"{\"a\":" + std::string(1'000'000, '['), 0, "has an array"},
  };
  for (const auto& c : cases) {
    const auto tensors = ParseSafetensorsHeader(c.header, c.data_bytes);
    ASSERT_FALSE(tensors.ok()) << c.header.substr(0, 120);
    EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr(c.message)) << c.header.substr(0, 120);
  }
}

TEST(SafetensorsHeader, ManyEntriesTakeLinearTime) {
  std::string header = "{";
  constexpr int kEntries = 250'000;
  for (int i = 0; i < kEntries; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", Entry(absl::StrCat(i), "I8", "", absl::StrCat(i, ",", i + 1)));
  }
  header += "}";
  ASSERT_LE(header.size(), kMaxHeaderBytes);
  const auto tensors = ParseSafetensorsHeader(header, kEntries);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), static_cast<size_t>(kEntries));
}

}  // namespace
}  // namespace dunlin::engine
