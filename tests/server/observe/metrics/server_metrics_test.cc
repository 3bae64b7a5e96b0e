// SPDX-License-Identifier: Apache-2.0
// Metric names match the golden file; values follow the records.
#include "server/observe/metrics/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/observe/metrics/metric_table.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr engine::TimeNs kMs = 1000000;

RequestRecord Served() {
  RequestRecord record;
  record.model = "m";
  record.profile = engine::ExecutionProfile{};
  record.finish_reason = "length";
  record.prompt_tokens = 12;
  record.completion_tokens = 5;
  record.max_tokens = 5;
  record.arrival = 100 * kMs;
  record.first_scheduled = 110 * kMs;
  record.first_token = 130 * kMs;
  record.finished = 170 * kMs;
  return record;
}

// "name type" of every family, from the text form.
std::set<std::string> Families(const std::string& text) {
  std::set<std::string> found;
  std::istringstream lines(text);
  const std::regex type_line("^# TYPE (\\S+) (\\S+)$");
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, type_line)) found.insert(match[1].str() + " " + match[2].str());
  }
  return found;
}

constexpr char kGoldenNames[] = DUNLIN_SOURCE_DIR "/tests/server/observe/metrics/metric_names.txt";

TEST(ServerMetrics, CountsResponsesOfTheHttpPort) {
  ServerMetrics metrics;
  metrics.OnHttpResponse("/v1/models/{id}", 200);
  metrics.OnHttpResponse("/v1/models/{id}", 200);
  metrics.OnHttpResponse("other", 404);
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("dunlin_http_responses_total{route=\"/v1/models/{id}\",status=\"200\"} 2"));
  EXPECT_THAT(text, HasSubstr("dunlin_http_responses_total{route=\"other\",status=\"404\"} 1"));
}

TEST(ServerMetrics, CountsWhatRequestsHadWithoutEffect) {
  ServerMetrics metrics;
  IgnoredNames names;
  names.Add("mood");
  names.Add("tools[web_search]");
  metrics.OnIgnored("/v1/responses", names);
  metrics.OnIgnored("/v1/responses", names);
  EXPECT_THAT(metrics.Render(), HasSubstr("dunlin_ignored_members_total{route=\"/v1/responses\"} 4"));
}

TEST(ServerMetrics, NamesMatchTheGoldenFile) {
  ServerMetrics metrics;
  const std::set<std::string> rendered = Families(metrics.Render());
  if (std::getenv("DUNLIN_UPDATE_GOLDENS") != nullptr) {
    std::ofstream file(kGoldenNames);
    for (const std::string& line : rendered) file << line << "\n";
  }
  std::ifstream file(kGoldenNames);
  std::set<std::string> golden;
  for (std::string line; std::getline(file, line);) golden.insert(line);
  EXPECT_EQ(rendered, golden) << "where the change is meant: run this test with DUNLIN_UPDATE_GOLDENS=1";
  EXPECT_EQ(rendered.size(), Metrics().size()) << "each name stands in one row";
}

TEST(MetricTable, EveryHistogramHasAscendingBucketsAndNothingElseHasAny) {
  for (const Metric& metric : Metrics()) {
    EXPECT_EQ(metric.type == MetricType::kHistogram, !metric.buckets.empty()) << metric.name;
    EXPECT_TRUE(std::is_sorted(metric.buckets.begin(), metric.buckets.end())) << metric.name;
    EXPECT_GT(std::string(metric.help).size(), 5U) << metric.name;
  }
}

TEST(ServerMetrics, CountsByBackendPrecisionAndStatus) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  metrics.OnFinished(Served());
  metrics.OnFinished(Served());
  RequestRecord refused;
  refused.model = "unknown";
  refused.status = absl::NotFoundError("no such model");
  refused.refusal_reason = "MODEL_NOT_FOUND";
  metrics.OnFinished(refused);
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("dunlin_requests_total{attention_backend=\"flash\",precision=\"bf16\",status=\"OK\"} 2"));
  EXPECT_THAT(text,
              HasSubstr("dunlin_requests_total{attention_backend=\"none\",precision=\"none\",status=\"NOT_FOUND\"} 1"));
  EXPECT_THAT(text, HasSubstr("dunlin_refusals_total{reason=\"MODEL_NOT_FOUND\"} 1"));
  EXPECT_THAT(text, Not(HasSubstr("unknown"))) << "a client cannot make a time series";
}

TEST(ServerMetrics, IntervalsMatchTheRecord) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  metrics.OnFinished(Served());
  metrics.OnTokenInterval("m", engine::ExecutionProfile{}, 10 * kMs);
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("vllm:request_queue_time_seconds_sum{model_name=\"m\"} 0.01\n"));
  EXPECT_THAT(text, HasSubstr("vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 0.03\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_decode_time_seconds_sum{model_name=\"m\"} 0.04\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_time_per_output_token_seconds_sum{model_name=\"m\"} 0.01\n"));
  EXPECT_THAT(text, HasSubstr("vllm:inter_token_latency_seconds_count{model_name=\"m\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_success_total{finished_reason=\"length\",model_name=\"m\"} 1\n"));
}

TEST(ServerMetrics, AnEmbedCallCountsInputsAndNothingOfGeneration) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  RequestRecord record = Served();
  record.num_inputs = 7;
  record.first_token = 0;
  record.completion_tokens = 0;
  record.finish_reason = "stop";
  metrics.OnFinished(record);
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("dunlin_embedding_inputs_sum{model_name=\"m\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_prompt_tokens_sum{model_name=\"m\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_queue_time_seconds_sum{model_name=\"m\"} 0.01\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_generation_tokens_count{model_name=\"m\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_params_n_count{model_name=\"m\"} 0\n"));
}

// Its time of being scheduled is unset: a sum would go down by the server's age.
TEST(ServerMetrics, ACallThatLoadedItsModelAloneIsCountedAndMeasuresNothing) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  RequestRecord record = Served();
  record.first_scheduled = 0;
  record.first_token = 0;
  record.prompt_tokens = 0;
  record.completion_tokens = 0;
  record.finish_reason = "load";
  metrics.OnFinished(record);
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("vllm:request_success_total{finished_reason=\"load\",model_name=\"m\"} 1\n"));
  for (const char* name : {"vllm:request_queue_time_seconds", "vllm:request_inference_time_seconds",
                           "vllm:e2e_request_latency_seconds", "vllm:request_prompt_tokens"}) {
    EXPECT_THAT(text, HasSubstr(std::string(name) + "_count{model_name=\"m\"} 0\n"));
  }
}

// The value of a series without labels; -1 when it is not there.
double Value(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name + " ", 0) == 0) return std::stod(line.substr(name.size() + 1));
  }
  return -1;
}

TEST(ServerMetrics, ReadsTheEdgeAtEveryScrape) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  EXPECT_EQ(Value(metrics.Render(), "dunlin_ready"), 0) << "still loading";
  EXPECT_EQ(Value(metrics.Render(), "dunlin_tls_certificate_expires_in_seconds"), -1) << "no series without TLS";
  EdgeSnapshot edge{true, 3, 4096, 5.5, 7, 9, {}, 0};
  metrics.WatchEdge([&edge] { return edge; });
  const std::string serving = metrics.Render();
  EXPECT_EQ(Value(serving, "dunlin_ready"), 1);
  EXPECT_EQ(Value(serving, "dunlin_requests_in_flight"), 3);
  EXPECT_EQ(Value(serving, "dunlin_queued_bytes"), 4096);
  EXPECT_EQ(Value(serving, "dunlin_tls_certificate_expires_in_seconds"), 5.5);
  EXPECT_EQ(Value(serving, "dunlin_tls_reloads_total"), 7);
  EXPECT_EQ(Value(serving, "dunlin_tls_reload_failures_total"), 9);
  edge.access.num_keys = 5;
  edge.access.file_ok = false;
  edge.access.unauthenticated = 7;
  edge.access.denied = 11;
  edge.connections_cut = 13;
  const std::string keyed = metrics.Render();
  EXPECT_EQ(Value(keyed, "dunlin_access_keys"), 5);
  EXPECT_EQ(Value(keyed, "dunlin_access_keys_file_ok"), 0);
  EXPECT_EQ(Value(keyed, "dunlin_access_unauthenticated_total"), 7);
  EXPECT_EQ(Value(keyed, "dunlin_access_denied_total"), 11);
  EXPECT_EQ(Value(keyed, "dunlin_grpc_connections_cut_total"), 13);
  edge.ready = false;
  EXPECT_EQ(Value(metrics.Render(), "dunlin_ready"), 0);
}

TEST(ServerMetrics, ReportsWhatBecameOfSpans) {
  ServerMetrics metrics;
  EXPECT_EQ(Value(metrics.Render(), "dunlin_trace_spans_exported_total"), 0);
  metrics.WatchTracing([] { return TracingSnapshot{3, 5}; });
  EXPECT_EQ(Value(metrics.Render(), "dunlin_trace_spans_exported_total"), 3);
  EXPECT_EQ(Value(metrics.Render(), "dunlin_trace_spans_dropped_total"), 5);
}

TEST(ServerMetrics, ReportsRpcsByMethodAndStatus) {
  ServerMetrics metrics;
  RpcMethodObserver* method = metrics.rpcs()->ForMethod("s.S/M");
  EXPECT_EQ(method, metrics.rpcs()->ForMethod("s.S/M"));
  metrics.rpcs()->ForMethod("other");
  for (int i = 0; i < 4; ++i) method->OnStarted();
  method->OnEnded({absl::StatusCode::kOk, 750 * kMs, 1500, 3});
  method->OnEnded({absl::StatusCode::kOk, 250 * kMs, 0, 2000});
  method->OnEnded({absl::StatusCode::kUnavailable, kMs, 0, 0});
  method->OnEnded({static_cast<absl::StatusCode>(99), kMs, 0, 0});
  const std::string text = metrics.Render();
  const std::string ok = "{grpc_method=\"s.S/M\",grpc_status=\"OK\"";
  for (const std::string& line : {
           std::string("grpc_server_call_started_total{grpc_method=\"s.S/M\"} 4\n"),
           std::string("grpc_server_call_started_total{grpc_method=\"other\"} 0\n"),
           "grpc_server_call_duration_seconds_sum" + ok + "} 1\n",
           "grpc_server_call_duration_seconds_bucket" + ok + ",le=\"0.25\"} 1\n",
           "grpc_server_call_duration_seconds_bucket" + ok + ",le=\"0.8\"} 2\n",
           "grpc_server_call_sent_total_compressed_message_size_bytes_sum" + ok + "} 1500\n",
           "grpc_server_call_sent_total_compressed_message_size_bytes_bucket" + ok + ",le=\"0\"} 1\n",
           "grpc_server_call_rcvd_total_compressed_message_size_bytes_sum" + ok + "} 2003\n",
           std::string(
               "grpc_server_call_duration_seconds_count{grpc_method=\"s.S/M\",grpc_status=\"UNAVAILABLE\"} 1\n"),
           std::string("grpc_server_call_duration_seconds_count{grpc_method=\"s.S/M\",grpc_status=\"UNKNOWN\"} 1\n"),
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("grpc_status=\"NOT_FOUND\""))) << "no call, no series";
}

TEST(ServerMetrics, ReportsThisProcess) {
  const ServerMetrics metrics;
  const std::string before = metrics.Render();
  EXPECT_NEAR(Value(before, "process_start_time_seconds"), static_cast<double>(std::time(nullptr)), 60);
  const std::vector<char> memory(64 << 20, 1);
  std::ifstream file(DUNLIN_SOURCE_DIR "/tests/server/observe/metrics/metric_names.txt");
  const std::string after = metrics.Render();
  EXPECT_EQ(memory.back(), 1);
  EXPECT_GT(Value(after, "process_resident_memory_bytes"), Value(before, "process_resident_memory_bytes") + (60 << 20));
  EXPECT_GE(Value(after, "process_threads"), 1);
  EXPECT_EQ(Value(after, "process_open_fds"), Value(before, "process_open_fds") + 1);
  EXPECT_GT(Value(after, "process_max_fds"), Value(after, "process_open_fds"));
  EXPECT_GE(Value(after, "process_cpu_seconds_total"), Value(before, "process_cpu_seconds_total"));
}

// Of malloc; the sanitizers have their own.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(ServerMetrics, ReportsWhatIsAllocatedAndWhatIsKept) {
  const ServerMetrics metrics;
  const std::string before = metrics.Render();
  std::vector<std::unique_ptr<char[]>> pieces;
  for (int i = 0; i < 16 << 10; ++i) pieces.push_back(std::make_unique<char[]>(1 << 10));
  const std::string allocated = metrics.Render();
  for (size_t i = 0; i < pieces.size(); i += 2) pieces[i].reset();  // between pieces in use: nothing is given back
  const std::string freed = metrics.Render();
  const auto growth = [](const std::string& from, const std::string& to, const char* name) {
    return Value(to, name) - Value(from, name);
  };
  EXPECT_GE(growth(before, allocated, "dunlin_heap_used_bytes"), 16 << 20);
  EXPECT_LE(growth(allocated, freed, "dunlin_heap_used_bytes"), -(7 << 20));
  EXPECT_GE(growth(allocated, freed, "dunlin_heap_free_bytes"), 7 << 20);
}
#endif

TEST(ServerMetrics, AStepCountsItsTokensAndItsTime) {
  ServerMetrics metrics;
  const auto steps = metrics.AddModel("m");
  steps->OnStep(7, 2, 20 * kMs);
  const std::string text = metrics.Render();
  EXPECT_THAT(text, HasSubstr("vllm:iteration_tokens_total_sum{model_name=\"m\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("dunlin_engine_step_seconds_sum{model_name=\"m\"} 0.02\n"));
}

TEST(ServerMetrics, TheStateOfEveryKnownModelHasItsSeries) {
  ServerMetrics metrics;
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("dunlin_model_state{")));
  metrics.WatchModels([] {
    return std::vector<ModelStatus>{{"a", ModelState::kReady, false, "a newer version is broken", 3, 5},
                                    {"b", ModelState::kFailed, false, "no files", 0, 7},
                                    {"c", ModelState::kUnloaded, false, "", 2, 0}};
  });
  const std::string text = metrics.Render();
  EXPECT_EQ(Value(text, R"(dunlin_model_state{model_name="a",state="ready"})"), 1);
  EXPECT_EQ(Value(text, R"(dunlin_model_state{model_name="b",state="failed"})"), 1);
  EXPECT_EQ(Value(text, R"(dunlin_model_state{model_name="c",state="unloaded"})"), 1);
  EXPECT_EQ(Value(text, R"(dunlin_model_loads_total{model_name="a"})"), 3);
  EXPECT_EQ(Value(text, R"(dunlin_model_load_failures_total{model_name="b"})"), 7);
  EXPECT_EQ(Value(text, R"(dunlin_model_last_load_failed{model_name="a"})"), 1);
  EXPECT_EQ(Value(text, R"(dunlin_model_last_load_failed{model_name="c"})"), 0);
}

TEST(ServerMetrics, AModelAtFaultHasItsRankAsALabel) {
  ServerMetrics metrics;
  metrics.WatchModels([] {
    std::vector<ModelStatus> models(3);
    models[0].name = "a";
    models[1].name = "b";
    models[1].unhealthy = true;
    models[2].name = "c";
    models[2].unhealthy = true;
    models[2].rank_at_fault = 1;
    return models;
  });
  const std::string text = metrics.Render();
  EXPECT_EQ(Value(text, R"(dunlin_model_unhealthy{model_name="a",rank=""})"), 0);
  EXPECT_EQ(Value(text, R"(dunlin_model_unhealthy{model_name="b",rank=""})"), 1);
  EXPECT_EQ(Value(text, R"(dunlin_model_unhealthy{model_name="c",rank="1"})"), 1);
}

TEST(ServerMetrics, AdaptersHaveSeriesOfModelsThatTakeThem) {
  ServerMetrics metrics;
  metrics.WatchModels([] {
    ModelStatus status;
    status.name = "a";
    status.max_adapters = 4;
    status.adapters = {{"one", "/one", true, 1, 8, 1000, "", true},
                       {"two", "/two", true, 2, 8, 500, "", true},
                       {"three", "/three"},
                       {"four", "/four", true, 4, 8, 700, "", false}};
    status.adapter_moves = {.evictions = 6, .restores = 3, .reads = 1, .host_bytes = 700};
    status.running_adapters = {"one", "two"};
    status.waiting_adapters = {"two"};
    status.adapter_loads = 5;
    status.adapter_load_failures = 2;
    ModelStatus other;
    other.name = "b";
    return std::vector<ModelStatus>{status, other};
  });
  const std::string text = metrics.Render();
  EXPECT_EQ(Value(text, R"(dunlin_model_adapters{model_name="a"})"), 3);
  EXPECT_EQ(Value(text, R"(dunlin_model_resident_adapters{model_name="a"})"), 2);
  EXPECT_EQ(Value(text, R"(dunlin_model_adapter_host_bytes{model_name="a"})"), 700);
  EXPECT_EQ(Value(text, R"(dunlin_model_adapter_evictions_total{model_name="a"})"), 6);
  EXPECT_EQ(Value(text, R"(dunlin_model_adapter_restores_total{model_name="a"})"), 3);
  EXPECT_EQ(Value(text, R"(dunlin_model_adapter_bytes{model_name="a"})"), 1500);
  EXPECT_EQ(Value(text, R"(dunlin_model_adapter_loads_total{model_name="a"})"), 5);
  EXPECT_EQ(Value(text, R"(dunlin_model_adapter_load_failures_total{model_name="a"})"), 2);
  const std::string info = R"(vllm:lora_requests_info{max_lora="4",model_name="a",running_lora_adapters="one,two",)"
                           R"(waiting_lora_adapters="two"})";
  EXPECT_NEAR(Value(text, info), static_cast<double>(std::time(nullptr)), 60);
  EXPECT_THAT(text, Not(HasSubstr(R"(dunlin_model_adapters{model_name="b"})")));
}

double EngineMetric(const std::string& name, const engine::EngineStats& stats) {
  for (const Metric& metric : Metrics()) {
    if (metric.name == name) return std::get<EngineValue>(metric.source).value(stats);
  }
  return -1;
}

TEST(MetricTable, EngineValuesAreThoseOfTheSnapshot) {
  engine::EngineStats stats;
  stats.pages_used = 3;
  stats.pages_total = 12;
  stats.generation_tokens = 77;
  EXPECT_EQ(EngineMetric("dunlin_kv_pages_used", stats), 3);
  EXPECT_EQ(EngineMetric("vllm:kv_cache_usage_perc", stats), 0.25);
  EXPECT_EQ(EngineMetric("vllm:generation_tokens_total", stats), 77);
}

}  // namespace
}  // namespace dunlin::server
