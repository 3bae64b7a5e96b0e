// SPDX-License-Identifier: Apache-2.0
#include "tools/load/result.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dunlin::tools::load {
namespace {

constexpr struct {
  const char* name;
  double fraction;
} kPercentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};

// mean_X_ms, median_X_ms, std_X_ms, pNN_X_ms, max_X_ms.
void AddLatency(const std::string& name, const DurationHistogram& values, Json* json) {
  (*json)["mean_" + name + "_ms"] = values.mean_ms();
  (*json)["median_" + name + "_ms"] = values.PercentileMs(0.5);
  (*json)["std_" + name + "_ms"] = values.stddev_ms();
  for (const auto& p : kPercentiles) (*json)[p.name + ("_" + name) + "_ms"] = values.PercentileMs(p.fraction);
  (*json)["max_" + name + "_ms"] = values.max_ms();
}

double Rate(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double Ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

void AddTotals(const Totals& totals, double seconds, bool has_slo, Json* json) {
  Json& j = *json;
  j["duration"] = seconds;
  j["completed"] = totals.completed;
  j["failed"] = totals.failed;
  j["total_input_tokens"] = totals.input_tokens;
  j["total_output_tokens"] = totals.output_tokens;
  j["request_throughput"] = Rate(totals.completed, seconds);
  j["request_goodput"] = has_slo ? Json(Rate(totals.good, seconds)) : Json();
  j["output_throughput"] = Rate(totals.output_tokens, seconds);
  j["total_token_throughput"] = Rate(totals.input_tokens + totals.output_tokens, seconds);
  AddLatency("ttft", totals.ttft, json);
  AddLatency("tpot", totals.tpot, json);
  AddLatency("itl", totals.itl, json);
  AddLatency("e2el", totals.e2el, json);
  j["sent"] = totals.sent;
  j["refused"] = totals.refused;
  j["refused_without_retry_info"] = totals.refused_without_retry_info;
  j["deadline"] = totals.deadline;
  j["cancelled"] = totals.cancelled;
  j["unfinished"] = totals.unfinished;
  j["goodput_ratio"] = Ratio(totals.good, totals.sent - totals.cancelled);
  j["mean_tokens_per_message"] = Ratio(totals.output_tokens, totals.token_messages);
  if (totals.refused > 0) AddLatency("refusal", totals.refusal, json);
  if (totals.beyond_engine.count() > 0) AddLatency("beyond_engine", totals.beyond_engine, json);
}

Json ReasonsJson(const Recording& recording) {
  Json list = Json::array();
  for (const auto& [reason, totals] : recording.reasons) {
    list.push_back({{"reason", reason},
                    {"count", totals.count},
                    {"with_retry_info", totals.with_retry_info},
                    {"p50_ms", totals.latency.PercentileMs(0.5)},
                    {"p99_ms", totals.latency.PercentileMs(0.99)},
                    {"example", totals.example}});
  }
  return list;
}

Json TimelineJson(const Timeline& timeline) {
  Json json = {{"slot_s", ToSeconds(timeline.slot_ns())}};
  const double per_second = 1 / ToSeconds(timeline.slot_ns());
  for (const Timeline::Slot& slot : timeline.slots()) {
    json["sent"].push_back(slot.sent);
    json["completed"].push_back(slot.completed);
    json["refused"].push_back(slot.refused);
    json["failed"].push_back(slot.failed);
    json["in_flight_max"].push_back(slot.in_flight_max);
    json["output_tokens_per_s"].push_back(static_cast<double>(slot.tokens) * per_second);
    json["mean_ttft_ms"].push_back(
        slot.first_tokens == 0 ? Json() : Json(slot.ttft_ms_sum / static_cast<double>(slot.first_tokens)));
  }
  return json;
}

Json HistogramJson(const DurationHistogram& values) {
  Json json = Json::array();
  for (const auto& bucket : values.buckets()) json.push_back({bucket.low_ms, bucket.high_ms, bucket.count});
  return json;
}

// REQUIRES: samples is not empty; the first was taken before the run, the last after it.
Json ServerJson(const std::vector<ServerSample>& samples, TimeNs started) {
  Json json = {
      {"before", Json::object()}, {"max", Json::object()}, {"after", Json::object()}, {"growth", Json::object()}};
  for (const ServerField& row : kServerFields) {
    if (samples.back().*row.field < 0) continue;
    double highest = -1;
    for (const ServerSample& sample : samples) highest = std::max(highest, sample.*row.field);
    json["before"][row.key] = samples.front().*row.field;
    json["max"][row.key] = highest;
    json["after"][row.key] = samples.back().*row.field;
    json["growth"][row.key] = samples.back().*row.field - samples.front().*row.field;
    for (const ServerSample& sample : samples) json["samples"][row.key].push_back(sample.*row.field);
  }
  for (const ServerSample& sample : samples) json["samples"]["time_s"].push_back(ToSeconds(sample.time - started));
  return json;
}

}  // namespace

Json ResultJson(const RunDescription& run, const Recording& recording, const std::vector<ServerSample>& server) {
  const Totals sum = recording.Sum();
  const bool open = run.shape.rate > 0;
  constexpr const char* kArrivalNames[] = {"poisson", "constant", "burst"};
  Json json = {{"date", run.date},
               {"endpoint_type", run.protocol},
               {"label", run.label},
               {"model_id", run.model},
               {"dataset", run.dataset},
               {"num_prompts", sum.sent},
               {"request_rate", open ? Json(run.shape.rate) : Json("inf")},
               {"arrivals", open ? kArrivalNames[static_cast<size_t>(run.shape.arrivals)] : "closed"},
               {"max_concurrency", open ? Json() : Json(run.shape.concurrency)}};
  AddTotals(sum, recording.seconds(), run.slo.any(), &json);
  const Timeline& timeline = recording.timeline;
  int64_t most_tokens = 0;
  for (const Timeline::Slot& slot : timeline.slots()) most_tokens = std::max(most_tokens, slot.tokens);
  json["max_output_tokens_per_s"] = static_cast<double>(most_tokens) / ToSeconds(timeline.slot_ns());
  json["max_concurrent_requests"] = recording.in_flight_max;
  json["client_cpu_seconds"] = recording.cpu_seconds;
  constexpr double kUsPerSecond = 1e6;
  json["client_cpu_us_per_token"] =
      recording.tokens > 0 ? Json(recording.cpu_seconds * kUsPerSecond / static_cast<double>(recording.tokens))
                           : Json();
  AddLatency("send_delay", recording.send_delay, &json);
  json["reasons"] = ReasonsJson(recording);
  json["profiles"] = Json::array();
  for (size_t i = 0; i < run.mix.size(); ++i) {
    Json profile = {{"profile", run.mix[i].name}};
    AddTotals(recording.groups[i], recording.seconds(), run.slo.any(), &profile);
    json["profiles"].push_back(std::move(profile));
  }
  json["timeline"] = TimelineJson(timeline);
  json["histograms"] = {{"ttft_ms", HistogramJson(sum.ttft)}, {"itl_ms", HistogramJson(sum.itl)}};
  if (!server.empty()) json["server"] = ServerJson(server, recording.started);
  return json;
}

}  // namespace dunlin::tools::load
