// SPDX-License-Identifier: Apache-2.0
// Every value of a model's series against the field that it shows: each field has another value, so that two that are
// swapped, or one that is left out, give another text. Bucket edges match the golden file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "server/observe/metrics/metric_table.h"
#include "server/observe/metrics/model_metrics.h"
#include "server/observe/metrics/server_metrics.h"
#include "tests/server/serving/prime_record.h"

namespace dunlin::server {
namespace {

using Series = std::map<std::string, double>;  // by "name{labels}"

Series Parse(const std::string& text) {
  Series series;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (!line.empty() && line[0] != '#') series[line.substr(0, space)] = std::stod(line.substr(space + 1));
  }
  return series;
}

std::string OfModel(const std::string& name) {
  return name + "{model_name=\"m\"}";
}

engine::EngineStats PrimeStats() {
  engine::EngineStats stats;
  stats.running = 2;
  stats.waiting = 3;
  stats.pages_used = 5;
  stats.pages_total = 7;
  stats.pages_backed = 83;
  stats.pages_missing = 1;
  stats.steps = 11;
  stats.preemptions = 13;
  stats.prompt_tokens = 17;
  stats.prompt_tokens_cached = 19;
  stats.generation_tokens = 23;
  stats.prefix_queries = 29;
  stats.prefix_hits = 31;
  stats.device_memory_peak_bytes = 37;
  stats.longest_step_ns = 41 * kSecond;
  stats.longest_mask_wait_ns = 43 * kSecond;
  stats.drafts = 47;
  stats.draft_tokens = 53;
  stats.accepted_tokens = 59;
  stats.accepted_at_position[0] = 61;
  stats.accepted_at_position[15] = 67;
  stats.state_slots_used = 71;
  stats.state_slots_kept = 73;
  stats.state_slots_total = 79;
  return stats;
}

TEST(MetricValues, EveryEngineSeriesShowsItsField) {
  const ModelMetrics model("m");
  const engine::EngineStats stats = PrimeStats();
  std::vector<prometheus::MetricFamily> families;
  for (size_t row = 0; row < Metrics().size(); ++row) {
    if (!std::holds_alternative<EngineValue>(Metrics()[row].source)) continue;
    const bool counter = Metrics()[row].type == MetricType::kCounter;
    families.push_back({Metrics()[row].name,
                        Metrics()[row].help,
                        counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge,
                        {}});
    model.Collect(row, &stats, &families.back());
  }
  const Series expected = {
      {OfModel("vllm:num_requests_running"), 2},
      {OfModel("vllm:num_requests_waiting"), 3},
      {OfModel("vllm:kv_cache_usage_perc"), 5.0 / 6.0},
      {OfModel("vllm:prompt_tokens_total"), 17},
      {OfModel("vllm:prompt_tokens_cached_total"), 19},
      {OfModel("vllm:generation_tokens_total"), 23},
      {OfModel("vllm:num_preemptions_total"), 13},
      {OfModel("vllm:prefix_cache_queries_total"), 29},
      {OfModel("vllm:prefix_cache_hits_total"), 31},
      {OfModel("vllm:spec_decode_num_drafts_total"), 47},
      {OfModel("vllm:spec_decode_num_draft_tokens_total"), 53},
      {OfModel("vllm:spec_decode_num_accepted_tokens_total"), 59},
      {OfModel("dunlin_kv_pages_used"), 5},
      {OfModel("dunlin_kv_pages_total"), 7},
      {OfModel("dunlin_kv_pages_backed"), 83},
      {OfModel("dunlin_kv_pages_missing"), 1},
      {OfModel("dunlin_state_slots_used"), 71},
      {OfModel("dunlin_state_slots_kept"), 73},
      {OfModel("dunlin_state_slots_total"), 79},
      {OfModel("dunlin_device_memory_peak_bytes"), 37},
      {OfModel("dunlin_engine_steps_total"), 11},
      {OfModel("dunlin_engine_longest_step_seconds"), 41},
      {OfModel("dunlin_engine_longest_mask_wait_seconds"), 43},
  };
  EXPECT_EQ(Parse(prometheus::TextSerializer().Serialize(families)), expected)
      << "a new engine row needs a field with a value of its own here";
}

TEST(MetricValues, AcceptedDraftsAreCountedByTheirPlace) {
  const ModelMetrics model("m");
  const engine::EngineStats stats = PrimeStats();
  std::vector<prometheus::MetricFamily> families;
  for (size_t row = 0; row < Metrics().size(); ++row) {
    if (!std::holds_alternative<DraftPositionValue>(Metrics()[row].source)) continue;
    families.push_back({Metrics()[row].name, Metrics()[row].help, prometheus::MetricType::Counter, {}});
    model.Collect(row, &stats, &families.back());
  }
  const Series found = Parse(prometheus::TextSerializer().Serialize(families));
  const std::string name = "vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"m\",position=";
  EXPECT_EQ(found.size(), static_cast<size_t>(engine::kMaxDrafts));
  EXPECT_EQ(found.at(name + "\"0\"}"), 61);
  EXPECT_EQ(found.at(name + "\"1\"}"), 0);
  EXPECT_EQ(found.at(name + "\"15\"}"), 67);
}

bool IsByProfile(const Metric& metric) {
  const auto* interval = std::get_if<TokenIntervalValue>(&metric.source);
  const auto* request = std::get_if<RequestValue>(&metric.source);
  return (interval != nullptr && interval->by_profile) || (request != nullptr && request->by_profile);
}

// The sums of all histograms of the model, those of `but` with the given value and count 1, all others 0. By profile
// there is only that of PrimeRecord, and only where it has observed something.
Series Histograms(const Series& but) {
  Series expected;
  size_t num_found = 0;
  for (const Metric& metric : Metrics()) {
    if (metric.type != MetricType::kHistogram || std::holds_alternative<RpcValue>(metric.source)) continue;
    const auto found = but.find(metric.name);
    num_found += found == but.end() ? 0 : 1;
    if (found == but.end() && IsByProfile(metric)) continue;
    const std::string labels =
        IsByProfile(metric) ? R"({model_name="m",attention_backend="math",precision="fp8"})" : R"({model_name="m"})";
    expected[metric.name + ("_sum" + labels)] = found == but.end() ? 0 : found->second;
    expected[metric.name + ("_count" + labels)] = found == but.end() ? 0 : 1;
  }
  EXPECT_EQ(num_found, but.size()) << "a name is no histogram's";
  return expected;
}

// Sums and counts of all histograms.
Series HistogramsOf(const ServerMetrics& metrics) {
  Series found;
  for (const auto& [name, value] : Parse(metrics.Render())) {
    if (name.find("_sum{") != std::string::npos || name.find("_count{") != std::string::npos) found[name] = value;
  }
  return found;
}

void ExpectNear(const Series& found, const Series& expected) {
  for (const auto& [name, value] : expected) {
    ASSERT_EQ(found.count(name), 1U) << name;
    EXPECT_NEAR(found.at(name), value, 1e-9) << name;
  }
  EXPECT_EQ(found.size(), expected.size());
}

TEST(MetricValues, AGenerationIsObservedInEveryRowOfItsFields) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  metrics.OnFinished(PrimeRecord());
  ExpectNear(HistogramsOf(metrics), Histograms({
                                        {"vllm:e2e_request_latency_seconds", 3 + 7 + 13},
                                        {"vllm:request_queue_time_seconds", 3},
                                        {"vllm:request_inference_time_seconds", 7 + 13},
                                        {"vllm:time_to_first_token_seconds", 3 + 7},
                                        {"dunlin_profile_time_to_first_token_seconds", 3 + 7},
                                        {"vllm:request_prefill_time_seconds", 7},
                                        {"vllm:request_decode_time_seconds", 13},
                                        {"vllm:request_time_per_output_token_seconds", 13.0 / 28.0},
                                        {"vllm:request_prompt_tokens", 31},
                                        {"vllm:request_generation_tokens", 58},
                                        {"vllm:request_params_n", 2},
                                        {"vllm:request_params_max_tokens", 41},
                                    }));
  const Series all = Parse(metrics.Render());
  EXPECT_EQ(all.at(R"(vllm:request_success_total{finished_reason="length",model_name="m"})"), 1);
  EXPECT_EQ(all.at(R"(dunlin_requests_total{attention_backend="math",precision="fp8",status="OK"})"), 1);
}

TEST(MetricValues, AnEmbeddingIsObservedInTheRowsThatApplyToIt) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  RequestRecord record = PrimeRecord();
  record.num_inputs = 53;
  record.completion_tokens = 0;
  record.first_token = 0;
  metrics.OnFinished(record);
  ExpectNear(HistogramsOf(metrics), Histograms({
                                        {"vllm:e2e_request_latency_seconds", 3 + 7 + 13},
                                        {"vllm:request_queue_time_seconds", 3},
                                        {"vllm:request_inference_time_seconds", 7 + 13},
                                        {"vllm:request_prompt_tokens", 31},
                                        {"dunlin_embedding_inputs", 53},
                                    }));
}

TEST(MetricValues, ARequestWithImagesIsObservedInTheirRows) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  RequestRecord record = PrimeRecord();
  record.num_images = 59;
  record.image_time = 61 * kSecond;
  metrics.OnFinished(record);
  const Series all = HistogramsOf(metrics);
  EXPECT_EQ(all.at(R"(dunlin_request_images_sum{model_name="m"})"), 59);
  EXPECT_NEAR(all.at(R"(dunlin_request_image_seconds_sum{model_name="m"})"), 61, 1e-9);
}

TEST(MetricValues, StepsAndIntervalsAreObservedInTheirRows) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  steps->OnStep(59, 61, 67 * kSecond);
  metrics.OnTokenInterval("m", *PrimeRecord().profile, 71 * kSecond);
  metrics.OnTokenInterval("another", *PrimeRecord().profile, 73 * kSecond);
  ExpectNear(HistogramsOf(metrics), Histograms({
                                        {"dunlin_engine_step_seconds", 67},
                                        {"vllm:iteration_tokens_total", 59},
                                        {"vllm:inter_token_latency_seconds", 71},
                                        {"dunlin_profile_inter_token_latency_seconds", 71},
                                    }));
}

TEST(MetricValues, EachProfileHasItsOwnTimes) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  engine::ExecutionProfile profile;
  for (const auto& backend : kernels::kAttentionBackendTable) {
    for (const auto& precision : kernels::kPrecisionTable) {
      profile.attention_backend = static_cast<engine::AttentionBackend>(&backend - kernels::kAttentionBackendTable);
      profile.precision = static_cast<engine::Precision>(&precision - kernels::kPrecisionTable);
      const auto number = 100 * (&backend - kernels::kAttentionBackendTable) + (&precision - kernels::kPrecisionTable);
      metrics.OnTokenInterval("m", profile, (1 + number) * kSecond);
    }
  }
  const Series all = Parse(metrics.Render());
  const std::string name = "dunlin_profile_inter_token_latency_seconds_sum";
  EXPECT_EQ(all.at(name + R"({model_name="m",attention_backend="math",precision="fp32"})"), 1);
  EXPECT_EQ(all.at(name + R"({model_name="m",attention_backend="flash",precision="bf16"})"), 102);
  EXPECT_EQ(all.at(name + R"({model_name="m",attention_backend="efficient",precision="int4"})"), 206);
}

constexpr char kGoldenBuckets[] = DUNLIN_SOURCE_DIR "/tests/server/observe/metrics/histogram_buckets.txt";

// "name edge edge ... +Inf" of every histogram, from the text form.
std::string RenderedBuckets() {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  metrics.OnTokenInterval("m", *PrimeRecord().profile, kSecond);
  metrics.OnFinished(PrimeRecord());
  metrics.rpcs()->ForMethod("s/M")->OnEnded({});
  std::ostringstream buckets;
  std::string last;
  std::istringstream lines(metrics.Render());
  for (std::string line; std::getline(lines, line);) {
    const size_t end_of_name = line.find("_bucket{");
    const size_t edge = line.find("le=\"");
    if (end_of_name == std::string::npos || edge == std::string::npos) continue;
    const std::string name = line.substr(0, end_of_name);
    if (name != last) buckets << (last.empty() ? "" : "\n") << name;
    buckets << " " << line.substr(edge + 4, line.find('"', edge + 4) - edge - 4);
    last = name;
  }
  buckets << "\n";
  return buckets.str();
}

TEST(MetricValues, BucketEdgesMatchTheGoldenFile) {
  const std::string rendered = RenderedBuckets();
  if (std::getenv("DUNLIN_UPDATE_GOLDENS") != nullptr) std::ofstream(kGoldenBuckets) << rendered;
  std::ostringstream golden;
  golden << std::ifstream(kGoldenBuckets).rdbuf();
  EXPECT_EQ(rendered, golden.str()) << "where the change is meant: run this test with DUNLIN_UPDATE_GOLDENS=1. "
                                       "Recorded series of a histogram with other edges cannot be added to new ones";
}

}  // namespace
}  // namespace dunlin::server
