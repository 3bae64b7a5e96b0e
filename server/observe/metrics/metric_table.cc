// SPDX-License-Identifier: Apache-2.0
#include "server/observe/metrics/metric_table.h"

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/status_name.h"
#include "server/observe/logging/logging.h"
#include "server/observe/metrics/process_stats.h"
#include "server/process/version.h"

namespace dunlin::server {
namespace {

using engine::EngineStats;
using Record = RequestRecord;
using Value = std::optional<double>;

constexpr double kLongSeconds[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                   30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr double kFirstTokenSeconds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                                         1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
// vLLM's edges start at 10 ms, which would put every interval of a small model into one bucket; hence the finer edges
// below it.
constexpr double kTokenSeconds[] = {0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.025,
                                    0.05,  0.075, 0.1,   0.15,  0.2,   0.3,   0.4,   0.5,  0.75,
                                    1,     2.5,   5,     7.5,   10,    20,    40,    80};
constexpr double kTokenCounts[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                   1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
constexpr double kInputs[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
constexpr double kOutputs[] = {1, 2, 5, 10, 20};
constexpr double kStepTokens[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

// Both of gRFC A66.
constexpr double kRpcSeconds[] = {0,     1e-5, 5e-5, 1e-4, 3e-4,  6e-4,  8e-4, 1e-3,  2e-3, 3e-3, 4e-3,
                                  5e-3,  6e-3, 8e-3, 0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05,
                                  0.065, 0.08, 0.1,  0.13, 0.16,  0.2,   0.25, 0.3,   0.4,  0.5,  0.65,
                                  0.8,   1,    2,    5,    10,    20,    50,   100};
constexpr double kRpcBytes[] = {0,       1024,    2048,     4096,     16384,     65536,      262144,
                                1048576, 4194304, 16777216, 67108864, 268435456, 1073741824, 4294967296};

constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;
constexpr auto kHistogram = MetricType::kHistogram;

double Double(uint64_t value) {
  return static_cast<double>(value);
}

double Seconds(engine::TimeNs duration) {
  return static_cast<double>(duration) * 1e-9;
}

bool Generates(const Record& record) {
  return record.num_inputs == 0;
}

// A value that only Generate calls have.
Value OfGenerate(const Record& record, double value) {
  return Generates(record) ? Value(value) : std::nullopt;
}

// An interval that only Generate calls with at least one token have.
Value OfFirstToken(const Record& record, engine::TimeNs from, engine::TimeNs to) {
  return Generates(record) && record.first_token != 0 ? Value(Seconds(to - from)) : std::nullopt;
}

Value TimePerOutputToken(const Record& record) {
  const int32_t tokens_per_output = record.completion_tokens / record.num_outputs;
  if (!Generates(record) || tokens_per_output <= 1) return std::nullopt;
  return Seconds(record.finished - record.first_token) / (tokens_per_output - 1);
}

std::optional<MetricLabels> ByExecutionAndStatus(const Record& record) {
  const bool ran = record.profile.has_value();
  return MetricLabels{{"attention_backend", ran ? Name(record.profile->attention_backend) : "none"},
                      {"precision", ran ? Name(record.profile->precision) : "none"},
                      {"status", engine::StatusName(record.status.code())}};
}

std::optional<MetricLabels> ByReason(const Record& record) {
  if (record.refusal_reason.empty()) return std::nullopt;
  return MetricLabels{{"reason", record.refusal_reason}};
}

bool TakesAdapters(const ModelStatus& status) {
  return status.max_adapters > 0;
}

MetricLabels FaultLabels(const ModelStatus& status) {
  return {{"rank", status.rank_at_fault < 0 ? std::string() : std::to_string(status.rank_at_fault)}};
}

MetricLabels AdapterLabels(const ModelStatus& status) {
  return {{"max_lora", std::to_string(status.max_adapters)},
          {"running_lora_adapters", absl::StrJoin(status.running_adapters, ",")},
          {"waiting_lora_adapters", absl::StrJoin(status.waiting_adapters, ",")}};
}

struct LoadedAdapterSums {
  size_t count = 0;
  size_t resident = 0;
  size_t bytes = 0;  // of those that are resident
};
LoadedAdapterSums OfLoadedAdapters(const ModelStatus& status) {
  LoadedAdapterSums sums;
  for (const AdapterStatus& adapter : status.adapters) {
    if (!adapter.loaded) continue;
    ++sums.count;
    sums.resident += adapter.resident ? 1 : 0;
    sums.bytes += adapter.resident ? adapter.bytes : 0;
  }
  return sums;
}

double SecondsNow() {
  return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
}

const Metric kMetrics[] = {
    // The server.
    {"dunlin_ready", "1 while accepting requests, 0 while loading, stalled or draining", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return s.edge.ready ? 1.0 : 0.0; }}},
    {"dunlin_build_info", "Version of this server", kGauge, Info{[] {
       return MetricLabels{{"version", kVersion}};
     }}},
    {"dunlin_requests_total", "Generate and Embed calls by attention backend, precision and gRPC status", kCounter,
     RequestCount{&ByExecutionAndStatus}},
    {"dunlin_refusals_total", "Refused Generate and Embed calls by reason", kCounter, RequestCount{&ByReason}},
    {"dunlin_http_responses_total", "Responses of the HTTP port by route and HTTP status", kCounter,
     HttpResponseCount{[](const HttpResponse& r) {
       return MetricLabels{{"route", std::string(r.route)}, {"status", std::to_string(r.status)}};
     }}},
    {"dunlin_ignored_members_total", "Members, tools and blocks of HTTP requests that had no effect, by route",
     kCounter, IgnoredCount{[](std::string_view route) {
       return MetricLabels{{"route", std::string(route)}};
     }}},
    {"dunlin_requests_in_flight", "Calls accepted but not yet ended", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return double(s.edge.requests_in_flight); }}},
    {"dunlin_queued_bytes", "Bytes of requests accepted but not yet tokenised", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return double(s.edge.queued_bytes); }}},
    {"dunlin_tls_certificate_expires_in_seconds", "Time until the certificate expires; negative once it has", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return s.edge.certificate_expires_in_s; }}},
    {"dunlin_tls_reloads_total", "Times that changed certificate files were taken over", kCounter,
     ServerValue{[](const ServerSnapshot& s) { return Double(s.edge.certificate_reloads); }}},
    {"dunlin_tls_reload_failures_total", "Times that changed certificate files could not be used", kCounter,
     ServerValue{[](const ServerSnapshot& s) { return Double(s.edge.certificate_reload_failures); }}},

    {"dunlin_access_keys", "Records of the key file that are in force", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return Double(s.edge.access.num_keys); }}},
    {"dunlin_access_keys_file_ok", "1 if the key file was valid when it was last read, or there is none", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return s.edge.access.file_ok ? 1.0 : 0.0; }}},
    {"dunlin_access_unauthenticated_total", "Calls refused for want of a valid key", kCounter,
     ServerValue{[](const ServerSnapshot& s) { return Double(s.edge.access.unauthenticated); }}},
    {"dunlin_access_denied_total", "Calls refused because their key does not allow them", kCounter,
     ServerValue{[](const ServerSnapshot& s) { return Double(s.edge.access.denied); }}},

    {"dunlin_grpc_connections_cut_total", "gRPC connections cut because they opened too many calls and abandoned them",
     kCounter, ServerValue{[](const ServerSnapshot& s) { return Double(s.edge.connections_cut); }}},

    {"dunlin_log_lines_dropped_total", "Log lines lost: stderr was not read fast enough, or could not be written",
     kCounter, ServerValue{[](const ServerSnapshot&) { return Double(NumLostLogLines()); }}},
    {"dunlin_trace_spans_exported_total", "Spans that the collector has taken", kCounter,
     ServerValue{[](const ServerSnapshot& s) { return Double(s.tracing.spans_exported); }}},
    {"dunlin_trace_spans_dropped_total", "Spans dropped because the collector was away, too slow or refused them",
     kCounter, ServerValue{[](const ServerSnapshot& s) { return Double(s.tracing.spans_dropped); }}},

    // A model, served or not.
    {"dunlin_model_state", "1, label state: ready, loading, failed, unloading or unloaded", kGauge,
     ModelStatusValue{[](const ModelStatus&) { return 1.0; },
                      [](const ModelStatus& s) {
                        return MetricLabels{{"state", Name(s.state)}};
                      }}},
    {"dunlin_model_loads_total", "Times that the model was loaded", kCounter,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.loads); }}},
    {"dunlin_model_load_failures_total", "Times that the model could not be loaded", kCounter,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.load_failures); }}},
    {"dunlin_model_last_load_failed", "1 if the last attempt to load the model failed, also if it is served", kGauge,
     ModelStatusValue{[](const ModelStatus& s) { return s.failure.empty() ? 0.0 : 1.0; }}},
    {"dunlin_model_unhealthy",
     "1 while the model's engine stands still, or once its device has failed; label rank: of a divided model the rank "
     "at fault",
     kGauge, ModelStatusValue{[](const ModelStatus& s) { return s.unhealthy ? 1.0 : 0.0; }, &FaultLabels}},
    {"dunlin_model_waiting_requests",
     "Requests that wait for the model (models[].idle_unload_s), or for an adapter of it, to be in memory", kGauge,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.waiting); }}},
    {"dunlin_model_idle_unloads_total", "Times that the model was unloaded because nothing had used it", kCounter,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.idle_unloads); }}},
    {"dunlin_model_evictions_total", "Times that the idle model was unloaded for another one's memory", kCounter,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.evictions); }}},

    // LoRA adapters, of models that take any.
    {"vllm:lora_requests_info",
     "Unix time of the scrape; labels: the most adapters at once, and the names of those with requests that have drawn "
     "a "
     "token, and that wait for one",
     kGauge, ModelStatusValue{[](const ModelStatus&) { return SecondsNow(); }, &AdapterLabels, &TakesAdapters}},
    {"dunlin_model_adapters", "LoRA adapters that are loaded", kGauge,
     ModelStatusValue{[](const ModelStatus& s) { return double(OfLoadedAdapters(s).count); }, nullptr, &TakesAdapters}},
    {"dunlin_model_resident_adapters", "LoRA adapters whose weights are in the device's memory", kGauge,
     ModelStatusValue{[](const ModelStatus& s) { return double(OfLoadedAdapters(s).resident); }, nullptr,
                      &TakesAdapters}},
    {"dunlin_model_adapter_bytes", "Memory that the weights of resident adapters take", kGauge,
     ModelStatusValue{[](const ModelStatus& s) { return double(OfLoadedAdapters(s).bytes); }, nullptr, &TakesAdapters}},
    {"dunlin_model_adapter_host_bytes", "Host memory that the weights of evicted adapters take", kGauge,
     ModelStatusValue{[](const ModelStatus& s) { return double(s.adapter_moves.host_bytes); }, nullptr,
                      &TakesAdapters}},
    {"dunlin_model_adapter_evictions_total", "Times that an adapter left the device's memory for another one", kCounter,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.adapter_moves.evictions); }, nullptr, &TakesAdapters}},
    {"dunlin_model_adapter_restores_total", "Times that a request brought an adapter back to the device's memory",
     kCounter,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.adapter_moves.restores); }, nullptr, &TakesAdapters}},
    {"dunlin_model_adapter_loads_total", "Times that an adapter was loaded", kCounter,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.adapter_loads); }, nullptr, &TakesAdapters}},
    {"dunlin_model_adapter_load_failures_total", "Times that an adapter could not be loaded", kCounter,
     ModelStatusValue{[](const ModelStatus& s) { return Double(s.adapter_load_failures); }, nullptr, &TakesAdapters}},

    // An engine.
    {"vllm:num_requests_running", "Running sequences", kGauge,
     EngineValue{[](const EngineStats& s) { return double(s.running); }}},
    {"vllm:num_requests_waiting", "Waiting sequences", kGauge,
     EngineValue{[](const EngineStats& s) { return double(s.waiting); }}},
    {"vllm:kv_cache_usage_perc",
     "Fraction of KV pages in use, 0 to 1; pages held only by the prefix cache count as free", kGauge,
     EngineValue{[](const EngineStats& s) {
       const int32_t pages = s.pages_total - s.pages_missing;
       return pages > 0 ? double(s.pages_used) / pages : 0.0;
     }}},
    {"vllm:prompt_tokens_total", "Prompt tokens of admitted requests", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.prompt_tokens); }}},
    {"vllm:prompt_tokens_cached_total", "Prompt tokens found in the prefix cache", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.prompt_tokens_cached); }}},
    {"vllm:generation_tokens_total", "Generated tokens", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.generation_tokens); }}},
    {"vllm:num_preemptions_total", "Preempted sequences, which release their KV pages and are recomputed", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.preemptions); }}},
    {"vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.prefix_queries); }}},
    {"vllm:prefix_cache_hits_total", "Tokens found in the prefix cache", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.prefix_hits); }}},
    {"vllm:spec_decode_num_drafts_total", "Times that tokens of a sequence were guessed and verified", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.drafts); }}},
    {"vllm:spec_decode_num_draft_tokens_total", "Tokens guessed and verified", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.draft_tokens); }}},
    {"vllm:spec_decode_num_accepted_tokens_total", "Guessed tokens that were drawn", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.accepted_tokens); }}},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total",
     "Guessed tokens that were drawn, by their place among those of a step, from 0 on", kCounter,
     DraftPositionValue{
         [](const EngineStats& s, size_t position) { return Double(s.accepted_at_position[position]); }}},
    {"dunlin_kv_pages_used", "KV pages owned by sequences", kGauge,
     EngineValue{[](const EngineStats& s) { return double(s.pages_used); }}},
    {"dunlin_kv_pages_total", "KV pages of the pool", kGauge,
     EngineValue{[](const EngineStats& s) { return double(s.pages_total); }}},
    {"dunlin_kv_pages_backed", "KV pages that have memory and may be used", kGauge,
     EngineValue{[](const EngineStats& s) { return double(s.pages_backed); }}},
    {"dunlin_kv_pages_missing", "KV pages for which the system has no memory; known once the others have theirs",
     kGauge, EngineValue{[](const EngineStats& s) { return double(s.pages_missing); }}},
    {"dunlin_state_slots_used", "Slots of recurrent states that sequences own; 0 of a model without recurrent layers",
     kGauge, EngineValue{[](const EngineStats& s) { return double(s.state_slots_used); }}},
    {"dunlin_state_slots_kept", "Slots with a recurrent state that the prefix cache knows", kGauge,
     EngineValue{[](const EngineStats& s) { return double(s.state_slots_kept); }}},
    {"dunlin_state_slots_total", "Slots of recurrent states; 0 of a model without recurrent layers", kGauge,
     EngineValue{[](const EngineStats& s) { return double(s.state_slots_total); }}},
    {"dunlin_device_memory_peak_bytes", "Peak allocated memory of the model's device in bytes, over all models on it",
     kGauge, EngineValue{[](const EngineStats& s) { return Double(s.device_memory_peak_bytes); }}},
    {"dunlin_engine_steps_total", "Engine steps completed", kCounter,
     EngineValue{[](const EngineStats& s) { return Double(s.steps); }}},
    {"dunlin_engine_step_seconds", "Duration of an engine step", kHistogram,
     StepValue{[](const StepSample& step) { return Seconds(step.duration); }}, kTokenSeconds},
    {"dunlin_engine_longest_step_seconds", "Duration of the longest engine step since start", kGauge,
     EngineValue{[](const EngineStats& s) { return Seconds(s.longest_step_ns); }}},
    {"dunlin_engine_longest_mask_wait_seconds", "Longest wait of an engine step for grammar masks since start", kGauge,
     EngineValue{[](const EngineStats& s) { return Seconds(s.longest_mask_wait_ns); }}},
    {"vllm:iteration_tokens_total", "Tokens computed in an engine step", kHistogram,
     StepValue{[](const StepSample& step) { return double(step.num_tokens); }}, kStepTokens},

    // A model's requests.
    {"vllm:inter_token_latency_seconds", "Time between two tokens of an output", kHistogram,
     TokenIntervalValue{&Seconds}, kTokenSeconds},
    {"dunlin_profile_inter_token_latency_seconds",
     "Time between two tokens of an output, by attention backend and precision", kHistogram,
     TokenIntervalValue{&Seconds, true}, kTokenSeconds},
    {"dunlin_profile_time_to_first_token_seconds",
     "Time from arrival to first token, by attention backend and precision", kHistogram,
     RequestValue{[](const Record& r) { return OfFirstToken(r, r.arrival, r.first_token); }, true}, kFirstTokenSeconds},
    {"vllm:request_success_total", "Requests that ended OK by finish reason", kCounter,
     ModelRequestCount{[](const Record& r) {
       return MetricLabels{{"finished_reason", r.finish_reason}};
     }}},
    {"vllm:e2e_request_latency_seconds", "Time from arrival to finish", kHistogram,
     RequestValue{[](const Record& r) { return Value(Seconds(r.finished - r.arrival)); }}, kLongSeconds},
    {"vllm:request_queue_time_seconds", "Time from arrival to first scheduled", kHistogram,
     RequestValue{[](const Record& r) { return Value(Seconds(r.first_scheduled - r.arrival)); }}, kLongSeconds},
    {"vllm:request_inference_time_seconds", "Time from first scheduled to finish", kHistogram,
     RequestValue{[](const Record& r) { return Value(Seconds(r.finished - r.first_scheduled)); }}, kLongSeconds},
    {"vllm:time_to_first_token_seconds", "Time from arrival to first token", kHistogram,
     RequestValue{[](const Record& r) { return OfFirstToken(r, r.arrival, r.first_token); }}, kFirstTokenSeconds},
    {"vllm:request_prefill_time_seconds", "Time from first scheduled to first token", kHistogram,
     RequestValue{[](const Record& r) { return OfFirstToken(r, r.first_scheduled, r.first_token); }}, kLongSeconds},
    {"vllm:request_decode_time_seconds", "Time from first token to finish", kHistogram,
     RequestValue{[](const Record& r) { return OfFirstToken(r, r.first_token, r.finished); }}, kLongSeconds},
    {"vllm:request_time_per_output_token_seconds", "Decode time of a request divided by its tokens after the first",
     kHistogram, RequestValue{&TimePerOutputToken}, kTokenSeconds},
    {"vllm:request_prompt_tokens", "Prompt tokens of a request", kHistogram,
     RequestValue{[](const Record& r) { return Value(r.prompt_tokens); }}, kTokenCounts},
    {"vllm:request_generation_tokens", "Generated tokens of a request", kHistogram,
     RequestValue{[](const Record& r) { return OfGenerate(r, r.completion_tokens); }}, kTokenCounts},
    {"vllm:request_params_n", "Requested number of outputs (n)", kHistogram,
     RequestValue{[](const Record& r) { return OfGenerate(r, r.num_outputs); }}, kOutputs},
    {"vllm:request_params_max_tokens", "max_tokens of a request", kHistogram,
     RequestValue{[](const Record& r) { return OfGenerate(r, r.max_tokens); }}, kTokenCounts},
    {"dunlin_request_images", "Images of a request that has any", kHistogram,
     RequestValue{[](const Record& r) { return r.num_images > 0 ? Value(r.num_images) : std::nullopt; }}, kOutputs},
    {"dunlin_request_image_seconds", "Time in which a request waited for its images to be decoded and encoded",
     kHistogram,
     RequestValue{[](const Record& r) { return r.image_time > 0 ? Value(Seconds(r.image_time)) : std::nullopt; }},
     kLongSeconds},
    {"dunlin_embedding_inputs", "Inputs of an Embed call", kHistogram,
     RequestValue{[](const Record& r) { return Generates(r) ? std::nullopt : Value(r.num_inputs); }}, kInputs},

    // The gRPC port, as gRFC A66 names it.
    {"grpc_server_call_started_total", "RPCs started, by method; \"other\": methods that the server does not have",
     kCounter, RpcStarted{}},
    {"grpc_server_call_duration_seconds", "Time of an RPC from its first metadata to its status", kHistogram,
     RpcValue{[](const RpcEnd& end) { return Seconds(end.duration); }}, kRpcSeconds},
    {"grpc_server_call_sent_total_compressed_message_size_bytes", "Bytes of all messages that an RPC sent", kHistogram,
     RpcValue{[](const RpcEnd& end) { return Double(end.sent_bytes); }}, kRpcBytes},
    {"grpc_server_call_rcvd_total_compressed_message_size_bytes", "Bytes of all messages that an RPC received",
     kHistogram, RpcValue{[](const RpcEnd& end) { return Double(end.received_bytes); }}, kRpcBytes},

    // The process, under the standard names of Prometheus client libraries.
    {"process_start_time_seconds", "Start time of the process in seconds since the Unix epoch", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return s.start_time_s; }}},
    {"process_resident_memory_bytes", "Resident memory in bytes", kGauge,
     ServerValue{[](const ServerSnapshot&) { return ResidentBytes(); }}},
    {"dunlin_heap_used_bytes", "Bytes that malloc has given out and that are not freed", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return s.heap.used_bytes; }}},
    {"dunlin_heap_free_bytes", "Bytes that are freed and that malloc keeps for what is allocated next", kGauge,
     ServerValue{[](const ServerSnapshot& s) { return s.heap.free_bytes; }}},
    {"process_cpu_seconds_total", "User and system CPU time of all threads in seconds", kCounter,
     ServerValue{[](const ServerSnapshot&) { return CpuSeconds(); }}},
    {"process_threads", "Threads", kGauge, ServerValue{[](const ServerSnapshot&) { return NumThreads(); }}},
    {"process_open_fds", "Open file descriptors", kGauge,
     ServerValue{[](const ServerSnapshot&) { return NumOpenDescriptors(); }}},
    {"process_max_fds", "Maximum number of open file descriptors", kGauge,
     ServerValue{[](const ServerSnapshot&) { return MaxOpenDescriptors(); }}},
};

}  // namespace

std::span<const Metric> Metrics() {
  return kMetrics;
}

}  // namespace dunlin::server
