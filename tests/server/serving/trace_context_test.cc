// SPDX-License-Identifier: Apache-2.0
// traceparent and tracestate: what W3C's grammar takes, and what it does not.
#include "server/serving/record/trace_context.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

const std::string kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string With(size_t at, const std::string& text) {
  std::string parent = kParent;
  return parent.replace(at, text.size(), text);
}

TEST(TraceParentText, IsTakenApart) {
  const std::optional<TraceParent> parent = ParseTraceParent(kParent);
  ASSERT_TRUE(parent.has_value());
  const TraceId trace_id = {0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd,
                            0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c};
  const SpanId span_id = {0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31};
  EXPECT_EQ(parent->trace_id, trace_id);
  EXPECT_EQ(parent->span_id, span_id);
  EXPECT_TRUE(parent->sampled);
}

TEST(TraceParentText, OnlyTheLowestFlagSaysWhetherItIsSampled) {
  EXPECT_FALSE(ParseTraceParent(With(53, "00"))->sampled);
  EXPECT_FALSE(ParseTraceParent(With(53, "fe"))->sampled);
  EXPECT_TRUE(ParseTraceParent(With(53, "ff"))->sampled);
  EXPECT_TRUE(ParseTraceParent(With(53, "03"))->sampled);
}

TEST(TraceParentText, OfALaterVersionMayHaveMore) {
  EXPECT_TRUE(ParseTraceParent(With(0, "cc")).has_value());
  EXPECT_TRUE(ParseTraceParent(With(0, "cc") + "-").has_value());
  EXPECT_TRUE(ParseTraceParent(With(0, "01") + "-what-the-future-will-be-like").has_value());
  EXPECT_FALSE(ParseTraceParent(With(0, "cc") + ".what").has_value());
  EXPECT_FALSE(ParseTraceParent(With(0, "ff")).has_value());
}

TEST(TraceParentText, ThatIsMalformedIsNotTaken) {
  const std::string malformed[] = {
      "",
      "00",
      "-",
      kParent.substr(0, kParent.size() - 1),
      kParent + "0",
      kParent + "-",
      kParent + "-01",
      " " + kParent,
      kParent + " ",
      kParent + "," + kParent,
      With(0, "0G"),
      With(0, "0x"),
      With(2, "_"),
      With(35, "_"),
      With(52, "_"),
      With(3, "0AF7651916CD43DD8448EB211C80319C"),
      With(36, "B7AD6B7169203331"),
      With(53, "0A"),
      With(53, "0."),
      With(53, " 1"),
      With(3, "00000000000000000000000000000000"),
      With(36, "0000000000000000"),
      With(10, "-"),
      With(10, "g"),
      With(40, std::string(1, '\0')),
      With(40, "\x80"),
      std::string(1 << 20, '0'),
      std::string(1 << 20, '-'),
  };
  for (const std::string& text : malformed) {
    EXPECT_FALSE(ParseTraceParent(text).has_value()) << text.substr(0, 100);
  }
}

TEST(TraceParentText, NoChangedByteMakesAnInvalidIdValid) {
  for (size_t i = 0; i < kParent.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string text = kParent;
      text[i] = static_cast<char>(byte);
      const bool digit = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
      const bool dash = i == 2 || i == 35 || i == 52;
      const bool version_ff = text.substr(0, 2) == "ff";
      EXPECT_EQ(ParseTraceParent(text).has_value(), dash ? byte == '-' : digit && !version_ff) << i << " " << byte;
    }
  }
}

TEST(TraceStateText, IsAListOfKeysAndValues) {
  for (const char* text : {"a=b", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a=b, c=d", "a=b,\t,c=d ",
                           "0tenant@system=1", "a-b_c*d/e=~!#$%& '()", "a=b "}) {
    EXPECT_TRUE(IsTraceState(text)) << text;
  }
  for (const char* text : {"", " ", ",", "a", "=", "a=", "=b", "A=b", "a=b=c", "a=b,c", "a b=c", "a@b@c=d", "-a=b",
                           "a=\x01", "a=\x80", "a=b\r\nc=d"}) {
    EXPECT_FALSE(IsTraceState(text)) << text;
  }
}

TEST(TraceStateText, IsBounded) {
  std::string members;
  for (size_t i = 0; i < kMaxTraceStateMembers; ++i) absl::StrAppend(&members, i == 0 ? "" : ",", "k", i, "=v");
  EXPECT_TRUE(IsTraceState(members));
  EXPECT_FALSE(IsTraceState(members + ",more=v"));
  const std::string half(200, 'v');
  const std::string whole = "a=" + half + ",b=" + half + ",c=" + std::string(kMaxTraceStateBytes - 408, 'v');
  ASSERT_EQ(whole.size(), kMaxTraceStateBytes);
  EXPECT_TRUE(IsTraceState(whole));
  EXPECT_FALSE(IsTraceState(whole + "v"));
  EXPECT_FALSE(IsTraceState("a=" + std::string(257, 'v')));
  EXPECT_FALSE(IsTraceState(std::string(257, 'a') + "=v"));
}

TEST(TraceHeaders, AreReadTogether) {
  EXPECT_FALSE(ReadTraceContext({}, {"a=b"}).parent.has_value());
  EXPECT_EQ(ReadTraceContext({}, {"a=b"}).state, "");
  EXPECT_FALSE(ReadTraceContext({kParent, kParent}, {}).parent.has_value()) << "given twice";
  EXPECT_EQ(ReadTraceContext({"00-x"}, {"a=b"}).state, "") << "nothing without a parent";
  EXPECT_EQ(ReadTraceContext({kParent}, {"a=b", "c=d"}).state, "a=b,c=d");
  const TraceContext malformed = ReadTraceContext({kParent}, {"A=b"});
  EXPECT_TRUE(malformed.parent.has_value());
  EXPECT_EQ(malformed.state, "");
}

}  // namespace
}  // namespace dunlin::server
