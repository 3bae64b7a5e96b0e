// SPDX-License-Identifier: Apache-2.0
// Recorder, limits and the JSON result, against figures computed by hand.
#include "tools/load/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/load/call.h"

namespace dunlin::tools::load {
namespace {

using ::testing::HasSubstr;

constexpr TimeNs kStart = 1000 * kNsPerSecond;

Outcome Completed(TimeNs intended_ms, TimeNs ttft_ms, TimeNs tokens, TimeNs gap_ms) {
  Outcome outcome;
  outcome.ending = Ending::kCompleted;
  outcome.intended = kStart + intended_ms * kNsPerMs;
  outcome.sent = outcome.intended + kNsPerMs;
  outcome.first_token = outcome.intended + ttft_ms * kNsPerMs;
  outcome.last_token = outcome.first_token + (tokens - 1) * gap_ms * kNsPerMs;
  outcome.ended = outcome.last_token;
  outcome.longest_gap_ns = gap_ms * kNsPerMs;
  outcome.prompt_tokens = 10;
  outcome.output_tokens = static_cast<int32_t>(tokens);
  outcome.token_messages = static_cast<int32_t>(tokens);
  return outcome;
}

void Feed(const Outcome& outcome, Recorder* recorder) {
  recorder->OnSent(outcome.group, outcome.intended, outcome.sent);
  for (int32_t i = 0; i < outcome.output_tokens; ++i) {
    const TimeNs gap = i == 0 ? -1 : outcome.longest_gap_ns;
    recorder->OnTokens(outcome.group, 1, gap, outcome.first_token + i * outcome.longest_gap_ns);
  }
  recorder->OnEnd(outcome);
}

Json ResultOf(const Recorder& recorder, const std::vector<std::string>& names, const Slo& slo) {
  RunDescription run;
  run.slo = slo;
  for (const std::string& name : names) {
    run.mix.emplace_back();
    run.mix.back().name = name;
  }
  return ResultJson(run, recorder.Snapshot(), {});
}

TEST(Result, FiguresMatchAHandComputedExample) {
  Slo slo;
  slo.ttft_ms = 100;
  Recorder recorder(1, slo, kStart);
  Feed(Completed(0, 50, 5, 10), &recorder);     // E2E 90, TPOT 10
  Feed(Completed(100, 150, 5, 30), &recorder);  // E2E 270, TPOT 30, ends at 370; its first token is late
  const Json json = ResultOf(recorder, {"auto:auto"}, slo);
  EXPECT_EQ(json["completed"], 2);
  EXPECT_EQ(json["total_input_tokens"], 20);
  EXPECT_EQ(json["total_output_tokens"], 10);
  EXPECT_DOUBLE_EQ(json["duration"], 0.37);
  EXPECT_DOUBLE_EQ(json["request_throughput"], 2 / 0.37);
  EXPECT_DOUBLE_EQ(json["request_goodput"], 1 / 0.37);
  EXPECT_DOUBLE_EQ(json["goodput_ratio"], 0.5);
  EXPECT_DOUBLE_EQ(json["output_throughput"], 10 / 0.37);
  EXPECT_DOUBLE_EQ(json["total_token_throughput"], 30 / 0.37);
  EXPECT_DOUBLE_EQ(json["mean_ttft_ms"], 100);
  EXPECT_DOUBLE_EQ(json["std_ttft_ms"], 50);
  EXPECT_NEAR(json["p50_ttft_ms"], 50, 0.2);
  EXPECT_NEAR(json["p99_ttft_ms"], 150, 0.6);
  EXPECT_DOUBLE_EQ(json["mean_tpot_ms"], 20);
  EXPECT_DOUBLE_EQ(json["mean_itl_ms"], 20);
  EXPECT_DOUBLE_EQ(json["mean_e2el_ms"], 180);
  EXPECT_DOUBLE_EQ(json["mean_send_delay_ms"], 1);
  EXPECT_DOUBLE_EQ(json["mean_tokens_per_message"], 1);
  EXPECT_EQ(json["max_concurrent_requests"], 1);
  EXPECT_FALSE(json.contains("mean_refusal_ms"));
}

TEST(Result, HasTheKeysOfVllmBenchServe) {
  const Json json = ResultOf(Recorder(1, {}, kStart), {"auto:auto"}, {});
  for (const char* key :
       {"date", "endpoint_type", "label", "model_id", "num_prompts", "request_rate", "max_concurrency", "duration",
        "completed", "failed", "total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput",
        "output_throughput", "total_token_throughput", "max_output_tokens_per_s", "max_concurrent_requests"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* statistic : {"mean_", "median_", "std_", "p50_", "p90_", "p99_"}) {
    for (const char* what : {"ttft", "tpot", "itl", "e2el"}) {
      EXPECT_TRUE(json.contains(std::string(statistic) + what + "_ms")) << statistic << what;
    }
  }
  EXPECT_TRUE(json["request_goodput"].is_null()) << "without limits there is no goodput";
}

TEST(Result, CountsEndingsAndReasonsSeparately) {
  Recorder recorder(2, {}, kStart);
  const auto end = [&recorder](size_t group, Ending ending, const char* reason, bool retry, TimeNs after_ms) {
    Outcome outcome;
    outcome.group = group;
    outcome.ending = ending;
    outcome.reason = reason;
    outcome.retry_info = retry;
    outcome.intended = outcome.sent = kStart;
    outcome.ended = kStart + after_ms * kNsPerMs;
    Feed(outcome, &recorder);
  };
  end(0, Ending::kRefused, "QUEUE_FULL", true, 2);
  end(0, Ending::kRefused, "QUEUE_FULL", false, 4);
  end(1, Ending::kFailed, "INTERNAL", false, 8);
  end(1, Ending::kDeadline, "", false, 10);
  end(1, Ending::kCancelled, "", false, 10);
  end(1, Ending::kUnfinished, "", false, 10);
  const Json json = ResultOf(recorder, {"a", "b"}, {});
  EXPECT_EQ(json["refused"], 2);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["deadline"], 1);
  EXPECT_EQ(json["cancelled"], 1);
  EXPECT_EQ(json["unfinished"], 1);
  EXPECT_EQ(json["sent"], 6);
  EXPECT_EQ(json["refused_without_retry_info"], 1);
  EXPECT_DOUBLE_EQ(json["mean_refusal_ms"], 3);
  ASSERT_EQ(json["reasons"].size(), 2U) << json["reasons"];
  EXPECT_EQ(json["reasons"][1]["reason"], "QUEUE_FULL");
  EXPECT_EQ(json["reasons"][1]["count"], 2);
  EXPECT_EQ(json["reasons"][1]["with_retry_info"], 1);
  EXPECT_EQ(json["profiles"][0]["refused"], 2);
  EXPECT_EQ(json["profiles"][1]["refused"], 0);
  EXPECT_EQ(json["profiles"][1]["failed"], 1);
}

TEST(Result, ReasonsAreBounded) {
  Recorder recorder(1, {}, kStart);
  for (int i = 0; i < 200; ++i) {
    Outcome outcome;
    outcome.reason = "REASON_" + std::to_string(i);
    Feed(outcome, &recorder);
  }
  EXPECT_LE(recorder.Snapshot().reasons.size(), 33U);
  EXPECT_EQ(recorder.Snapshot().reasons["other"].count, 168);
}

TEST(Slo, EveryLimitCounts) {
  const Outcome outcome = Completed(0, 50, 5, 10);
  const auto met = [&outcome](const char* text) {
    const auto slo = ParseSlo(text);
    EXPECT_TRUE(slo.ok()) << slo.status();
    return slo->Met(outcome);
  };
  EXPECT_TRUE(met(""));
  EXPECT_TRUE(met("ttft_ms=50,tpot_ms=10,itl_ms=10,e2el_ms=90"));
  EXPECT_FALSE(met("ttft_ms=49.9"));
  EXPECT_FALSE(met("tpot_ms=9.9"));
  EXPECT_FALSE(met("itl_ms=9.9"));
  EXPECT_FALSE(met("e2el_ms=89.9"));
  Outcome refused = outcome;
  refused.ending = Ending::kRefused;
  EXPECT_FALSE(Slo().Met(refused));
  for (const char* text : {"ttft=5", "ttft_ms", "ttft_ms=0", "ttft_ms=x", "ttft_ms=5,"}) {
    EXPECT_FALSE(ParseSlo(text).ok()) << text;
  }
}

TEST(Check, ComparesAKeyOfTheResult) {
  const Json result = {{"p99_ttft_ms", 231.5}, {"model_id", "demo"}, {"server", {{"after", {{"kv_pages_used", 0}}}}}};
  const auto violation = [&result](const char* text) {
    const auto check = ParseCheck(text);
    EXPECT_TRUE(check.ok()) << check.status();
    return Violation(*check, result);
  };
  EXPECT_EQ(violation("p99_ttft_ms<=231.5"), "");
  EXPECT_EQ(violation("p99_ttft_ms>=200"), "");
  EXPECT_EQ(violation("p99_ttft_ms<=200"), "p99_ttft_ms is 231.5; limit is <= 200 (--check)");
  EXPECT_EQ(violation("server.after.kv_pages_used<=0"), "");
  EXPECT_THAT(violation("no.such.key<=1"), HasSubstr("not a number"));
  EXPECT_THAT(violation("model_id>=1"), HasSubstr("not a number"));
  for (const char* text : {"a<1", "<=1", "a<=", "a<=b"}) EXPECT_FALSE(ParseCheck(text).ok()) << text;
}

TEST(Timeline, HalvesItsResolutionWhenFull) {
  Timeline timeline(kNsPerMs);
  for (TimeNs ms = 0; ms < 2048; ++ms) timeline.At(ms * kNsPerMs).tokens += 1;
  EXPECT_EQ(timeline.slot_ns(), 4 * kNsPerMs);
  EXPECT_EQ(timeline.slots().size(), 512U);
  for (const Timeline::Slot& slot : timeline.slots()) EXPECT_EQ(slot.tokens, 4);
}

TEST(Call, CountsFromTheIntendedTimeAndEndsOnce) {
  Recorder recorder(1, {}, Now() - kNsPerSecond);
  int ended = 0;
  CallOptions options;
  options.intended = Now() - kNsPerSecond;  // the generator is a second late
  options.recorder = &recorder;
  options.on_end = [&ended] { ++ended; };
  Call call(options);
  call.OnSent();
  EXPECT_TRUE(call.OnTokens(3));
  call.SetUsage(7, 3);
  call.Complete();
  EXPECT_EQ(ended, 1);
  const Totals totals = recorder.Snapshot().Sum();
  EXPECT_GE(totals.ttft.mean_ms(), 1000);
  EXPECT_EQ(totals.input_tokens, 7);
  EXPECT_EQ(totals.output_tokens, 3);
  EXPECT_EQ(totals.token_messages, 1);
  EXPECT_GE(recorder.Snapshot().send_delay.mean_ms(), 1000);
}

TEST(Call, CancelsAfterItsTokensAndReportsWhoGaveUp) {
  Recorder recorder(1, {}, Now());
  CallOptions options;
  options.intended = Now();
  options.recorder = &recorder;
  options.cancel_after_tokens = 2;
  options.on_end = [] {};
  Call call(options);
  call.OnSent();
  EXPECT_TRUE(call.OnTokens(1));
  EXPECT_FALSE(call.OnTokens(1));
  call.GiveUp(Ending::kUnfinished);  // ignored: not the first
  call.End(Ending::kFailed, "CANCELLED", "");
  EXPECT_EQ(recorder.Snapshot().Sum().cancelled, 1);
  EXPECT_EQ(recorder.Snapshot().Sum().unfinished, 0);
  EXPECT_TRUE(recorder.Snapshot().reasons.empty());
}

}  // namespace
}  // namespace dunlin::tools::load
