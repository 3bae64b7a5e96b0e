// SPDX-License-Identifier: Apache-2.0
// What of a request had no effect: names that a header and a log line can hold, whatever a client sends.
#include "server/serving/record/ignored_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dunlin::server {
namespace {

using testing::ElementsAre;

TEST(IgnoredNames, AreKeptOnceInTheirOrder) {
  IgnoredNames names;
  EXPECT_TRUE(names.empty());
  for (const char* name : {"mood", "tools[web_search]", "mood", "messages[].x", ""}) names.Add(name);
  EXPECT_THAT(names.names(), ElementsAre("mood", "tools[web_search]", "messages[].x"));
  EXPECT_EQ(names.List(), "mood, tools[web_search], messages[].x");
}

TEST(IgnoredNames, AreSafeInAHeader) {
  IgnoredNames names;
  names.Add("a\r\nSet-Cookie: b, \xC3\xA9\"\\");
  EXPECT_EQ(names.List(), "a??Set-Cookie??b??????");
}

TEST(IgnoredNames, AreBounded) {
  IgnoredNames names;
  for (int i = 0; i < 100'000; ++i) names.Add(std::to_string(i) + std::string(1000, 'x'));
  EXPECT_EQ(names.names().size(), IgnoredNames::kMaxNames);
  EXPECT_LE(names.List().size(), (IgnoredNames::kMaxNames + 1) * (IgnoredNames::kMaxNameBytes + 2));
  EXPECT_THAT(names.List(), testing::EndsWith(", ..."));
}

}  // namespace
}  // namespace dunlin::server
