// SPDX-License-Identifier: Apache-2.0
// The search for the knee, and the report of what it finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/load/knee_search.h"
#include "tools/load/result_charts.h"

namespace dunlin::tools::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A server that completes at most `capacity` requests a second.
std::vector<double> Search(KneeSearch* search, double capacity) {
  std::vector<double> loads;
  while (const auto load = search->Next()) {
    loads.push_back(*load);
    search->Add({*load, std::min(*load, capacity), std::min(1.0, capacity / *load)});
  }
  return loads;
}

TEST(KneeSearch, DoublesThenBisects) {
  KneeSearch search({.start = 4});
  EXPECT_THAT(Search(&search, 23), ElementsAre(4, 8, 16, 32, 24, 28, 26));
  ASSERT_TRUE(search.knee().has_value());
  EXPECT_EQ(search.knee()->load, 24) << "23 of 24 were good: more than the required 90%";
}

TEST(KneeSearch, UnsustainedFirstStepIsNoKnee) {
  KneeSearch search({.start = 100});
  EXPECT_THAT(Search(&search, 23), ElementsAre(100));
  EXPECT_FALSE(search.knee().has_value());
}

TEST(KneeSearch, MoreConcurrencyWithoutGoodputIsPastTheKnee) {
  KneeSearch search({.start = 1, .refinements = 8, .whole_numbers = true});
  std::vector<double> loads;
  while (const auto load = search.Next()) {
    loads.push_back(*load);
    search.Add({*load, 10 * std::min(*load, 6.0), 1});  // every request is good: only the goodput tells
  }
  EXPECT_THAT(loads, ElementsAre(1, 2, 4, 8, 16, 12, 10, 9));
  EXPECT_EQ(search.knee()->load, 8) << "8 has more goodput than 4";
}

TEST(KneeSearch, StepsAreBounded) {
  KneeSearch search({.start = 1, .max_steps = 5});
  EXPECT_THAT(Search(&search, 1e9), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_EQ(search.knee()->load, 16);
}

TEST(Report, IsOneSelfContainedPage) {
  RunDescription run;
  run.label = "<script>";
  run.mix.emplace_back();
  Recorder recorder(1, {}, 0);
  Outcome outcome;
  outcome.ending = Ending::kCompleted;
  outcome.first_token = 5 * kNsPerMs;
  outcome.last_token = outcome.ended = 25 * kNsPerMs;
  outcome.output_tokens = 3;
  recorder.OnSent(0, 0, 0);
  recorder.OnTokens(0, 1, -1, outcome.first_token);
  recorder.OnTokens(0, 2, 20 * kNsPerMs, outcome.ended);
  recorder.OnEnd(outcome);
  ServerSample before;
  before.rss_bytes = 1e8;
  Json result = ResultJson(run, recorder.Snapshot(), {before, before});
  const Json step = {{"load", 1}, {"p50_ttft_ms", 5}, {"goodput", 1}};
  result["sweep"] = {{"unit", "requests/s"}, {"knee", 1}, {"steps", Json::array({step})}};
  const std::string html = ReportHtml(result);
  EXPECT_THAT(html, HasSubstr("TTFT, distribution"));
  EXPECT_THAT(html, HasSubstr("Server memory"));
  EXPECT_THAT(html, HasSubstr(">knee<"));
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  for (const char* outside : {"src=", "href=", "@import", "url("}) EXPECT_THAT(html, Not(HasSubstr(outside)));
}

}  // namespace
}  // namespace dunlin::tools::load
