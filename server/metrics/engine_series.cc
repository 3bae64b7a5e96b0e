#include "server/metrics/engine_series.h"

namespace dunlin::server {
namespace {

using engine::EngineStats;

double Count(uint64_t value) {
  return static_cast<double>(value);
}

struct EngineRow {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  double (*value)(const EngineStats&);
};

constexpr auto kGauge = prometheus::MetricType::Gauge;
constexpr auto kCounter = prometheus::MetricType::Counter;

const EngineRow kRows[] = {
    {"vllm:num_requests_running", "Sequences running", kGauge, [](const EngineStats& s) { return double(s.running); }},
    {"vllm:num_requests_waiting", "Sequences waiting", kGauge, [](const EngineStats& s) { return double(s.waiting); }},
    {"vllm:kv_cache_usage_perc", "Share of KV pages in use, 0 to 1; pages that only the prefix cache holds are free",
     kGauge, [](const EngineStats& s) { return s.pages_total > 0 ? double(s.pages_used) / s.pages_total : 0.0; }},
    {"vllm:prompt_tokens_total", "Prompt tokens of admitted requests", kCounter,
     [](const EngineStats& s) { return Count(s.prompt_tokens); }},
    {"vllm:prompt_tokens_cached_total", "Prompt tokens found in the prefix cache", kCounter,
     [](const EngineStats& s) { return Count(s.prompt_tokens_cached); }},
    {"vllm:generation_tokens_total", "Generated tokens", kCounter,
     [](const EngineStats& s) { return Count(s.generation_tokens); }},
    {"vllm:num_preemptions_total", "Sequences that gave their pages back and were recomputed", kCounter,
     [](const EngineStats& s) { return Count(s.preemptions); }},
    {"vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache", kCounter,
     [](const EngineStats& s) { return Count(s.prefix_queries); }},
    {"vllm:prefix_cache_hits_total", "Tokens found in the prefix cache", kCounter,
     [](const EngineStats& s) { return Count(s.prefix_hits); }},
    {"dunlin_kv_pages_used", "KV pages owned by sequences", kGauge,
     [](const EngineStats& s) { return double(s.pages_used); }},
    {"dunlin_kv_pages_total", "KV pages of the pool", kGauge,
     [](const EngineStats& s) { return double(s.pages_total); }},
    {"dunlin_device_memory_peak_bytes",
     "Most bytes of its device's memory that were taken at once, over all its models", kGauge,
     [](const EngineStats& s) { return double(s.device_memory_peak_bytes); }},
    {"dunlin_engine_steps_total", "Engine steps completed", kCounter,
     [](const EngineStats& s) { return Count(s.steps); }},
};

}  // namespace

std::vector<prometheus::MetricFamily> EngineSeries(const std::vector<EngineSnapshot>& engines) {
  std::vector<prometheus::MetricFamily> families;
  for (const EngineRow& row : kRows) {
    prometheus::MetricFamily family{row.name, row.help, row.type, {}};
    for (const EngineSnapshot& engine : engines) {
      prometheus::ClientMetric metric;
      metric.label = {{"model_name", engine.model_name}};
      metric.gauge.value = row.value(engine.stats);
      metric.counter.value = row.value(engine.stats);
      family.metric.push_back(metric);
    }
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace dunlin::server
