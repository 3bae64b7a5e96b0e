// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/smg_worker/server_facts.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/clock.h"
#include "engine/loop/validate.h"
#include "engine/request/draw_params.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::server {
namespace {

namespace wire = ::vllm::grpc::engine;

constexpr char kServerType[] = "dunlin-grpc";
constexpr char kConstraintsBegin[] = "first_token";

std::string SamplingDefaults(const ServedModel& model) {
  nlohmann::json defaults;
  for (const engine::DrawParamTraits& row : engine::kDrawParamTable) {
    if (!row.config_low.has_value()) continue;
    std::visit([&](const auto& param) { defaults[row.name()] = model.sampling_defaults.*param.value; }, row.param);
  }
  return defaults.dump();
}

// The first supported profile of the default precision: what a request gets that chooses nothing.
engine::ExecutionProfile DefaultProfile(const ServedModel& model) {
  const auto profile = model.profiles->Resolve({});
  return profile.ok() ? *profile : model.profiles->rows().front().profile;
}

int32_t AtLeastOne(int32_t value) {
  return std::max(value, 1);
}

// The tokens that the KV pool holds in pages of the default profile.
int64_t CapacityTokens(const ServedModel& model, const engine::EngineStats& stats) {
  const engine::ExecutionProfile profile = DefaultProfile(model);
  const int64_t blocks = model.engine == nullptr ? int64_t{stats.pages_total}  // an encoder's
                                                 : engine::KvBlocks(model.engine->limits(), profile.precision);
  const int64_t tokens = blocks * kernels::TokensPerPage(profile.kv_dtype());
  return std::min(tokens, int64_t{std::numeric_limits<int32_t>::max()});  // of the message's field
}

}  // namespace

wire::GetModelInfoResponse ModelInfoOf(const ServedModel& model, const std::string& name) {
  const engine::ModelConfig& config = model.model->config();
  const int32_t context = model.any_engine()->max_context_tokens();
  wire::GetModelInfoResponse info;
  info.set_model_path(model.directory.empty() ? model.name : model.directory);
  if (model.tokenizer != nullptr) info.set_tokenizer_path(model.directory);
  info.set_served_model_name(name);
  info.set_is_generation(!config.is_encoder());
  info.set_max_context_length(static_cast<uint32_t>(context));
  info.set_max_req_input_len(config.is_encoder() ? context : context - 1);
  info.set_vocab_size(static_cast<uint32_t>(config.vocab_size));
  info.set_model_type(config.architecture);
  info.mutable_eos_token_ids()->Assign(config.eos_token_ids.begin(), config.eos_token_ids.end());
  if (!config.is_encoder()) info.set_default_sampling_params_json(SamplingDefaults(model));
  return info;
}

wire::GetServerInfoResponse ServerInfoOf(const ServedModel& model, const ServingCore& core, absl::Time started) {
  const engine::ExecutionProfile profile = DefaultProfile(model);
  const absl::Time now = absl::Now();
  wire::GetServerInfoResponse info;
  info.set_active_requests(static_cast<uint32_t>(core.admission_stats().requests));
  info.set_last_receive_timestamp(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
  info.set_uptime_seconds(absl::ToDoubleSeconds(now - started));
  info.set_server_type(kServerType);
  info.set_data_parallel_size(1);
  info.set_kv_cache_dtype(kernels::Name(profile.kv_dtype()));
  info.set_attention_backend(kernels::Name(profile.attention_backend));
  info.set_model_dtype(kernels::Name(profile.precision));
  info.set_max_num_seqs(core.limits().max_concurrent_requests);
  info.set_constrained_decoding_start(kConstraintsBegin);
  return info;
}

wire::SchedulerLoad LoadOf(const ServedModel& model, const ServingCore& core) {
  const engine::EngineStats stats = model.any_engine()->stats();
  const int64_t tokens = CapacityTokens(model, stats);
  const int32_t capacity = core.limits().max_concurrent_requests;
  wire::SchedulerLoad load;
  load.set_num_running_reqs(stats.running);
  load.set_num_waiting_reqs(stats.waiting);
  load.set_num_total_reqs(stats.running + stats.waiting);
  load.set_num_used_tokens(static_cast<int32_t>(tokens * stats.pages_used / AtLeastOne(stats.pages_total)));
  load.set_max_total_num_tokens(static_cast<int32_t>(tokens));
  load.set_token_usage(static_cast<double>(stats.pages_used) / AtLeastOne(stats.pages_total - stats.pages_missing));
  load.set_cache_hit_rate(stats.prefix_queries == 0
                              ? 0.0
                              : static_cast<double>(stats.prefix_hits) / static_cast<double>(stats.prefix_queries));
  load.set_utilization(static_cast<double>(stats.running) / AtLeastOne(capacity));
  load.set_max_running_requests(capacity);
  return load;
}

double ThroughputMeter::Update(uint64_t total, engine::TimeNs now) {
  absl::MutexLock lock(&mutex_);
  const double seconds = static_cast<double>(now - at_) / 1e9;
  const bool known = at_ != 0 && seconds > 0.0 && total >= total_;
  const double rate = known ? static_cast<double>(total - total_) / seconds : 0.0;
  total_ = total;
  at_ = now;
  return rate;
}

}  // namespace dunlin::server
