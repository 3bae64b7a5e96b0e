// SPDX-License-Identifier: Apache-2.0
#include "server/observe/logging/log_text.h"

#include <gtest/gtest.h>

#include <string>

namespace dunlin::server {
namespace {

constexpr size_t kLong = 1000;

TEST(LogText, WhatAFieldHoldsCannotEndIt) {
  EXPECT_EQ(LogQuoted("", kLong), R"("")");
  EXPECT_EQ(LogQuoted("a status=OK", kLong), R"("a status=OK")");
  EXPECT_EQ(LogQuoted(R"(a" status="OK)", kLong), R"("a\" status=\"OK")");
  EXPECT_EQ(LogQuoted(R"(a\)", kLong), R"("a\\")");
}

TEST(LogText, ControlsOfBothSetsAreEscaped) {
  for (int byte = 0; byte < 0x20; ++byte)
    EXPECT_EQ(WithoutControls(std::string(1, static_cast<char>(byte))).size(), 4U);
  EXPECT_EQ(WithoutControls("a\nb\tc\x1b[2J\x7f"), R"(a\x0ab\x09c\x1b[2J\x7f)");
  EXPECT_EQ(WithoutControls("\u0080\u0085\u009b\u009f\u00a0"), "\\u0080\\u0085\\u009b\\u009f\u00a0");
}

TEST(LogText, WhatTurnsOrHidesTextIsEscaped) {
  for (const char* unseen :
       {"\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e",
        "\u2060", "\u2066", "\u2067", "\u2068", "\u2069", "\ufeff", "\ufff9", "\U000e0041"}) {
    const std::string escaped = WithoutControls(unseen);
    EXPECT_EQ(escaped.substr(0, 2), "\\u") << unseen;
    for (const char c : escaped) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
    EXPECT_EQ(LogQuoted(unseen, kLong), "\"" + escaped + "\"");
  }
  EXPECT_EQ(WithoutControls("\u202eabc"), "\\u202eabc");
}

TEST(LogText, OtherTextStaysAsItIs) {
  const std::string text = "Grüße, \u05e9\u05dc\u05d5\u05dd, \u6771\u4eac \U0001f426 2027\u2027 2030\u2030 \U000dffff";
  EXPECT_EQ(WithoutControls(text), text);
}

TEST(LogText, BytesThatAreNotUtf8AreEscapedOneByOne) {
  EXPECT_EQ(WithoutControls("\x9b"
                            "2J"),
            R"(\x9b2J)")
      << "C1 as a terminal without UTF-8 reads it";
  EXPECT_EQ(WithoutControls("\xc0\x8a"), R"(\xc0\x8a)") << "a line break in two bytes";
  EXPECT_EQ(WithoutControls("\xe0\x82\x9b"), R"(\xe0\x82\x9b)");
  EXPECT_EQ(WithoutControls("\xed\xa0\x80"), R"(\xed\xa0\x80)") << "a surrogate";
  EXPECT_EQ(WithoutControls("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)");
  EXPECT_EQ(WithoutControls("ok\xe2\x80"), R"(ok\xe2\x80)") << "cut at the end";
}

TEST(LogText, ALongFieldIsCutBetweenCharacters) {
  EXPECT_EQ(LogQuoted(std::string(100, 'x'), 4), R"("xxxx"...)");
  EXPECT_EQ(LogQuoted("xxx\u6771\u4eac", 4), "\"xxx\u6771\"...");
  EXPECT_EQ(LogQuoted("xxxx", 4), R"("xxxx")");
}

}  // namespace
}  // namespace dunlin::server
