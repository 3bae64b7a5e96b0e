// SPDX-License-Identifier: Apache-2.0
#include "server/config/config.h"

#include <algorithm>
#include <bitset>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/bounded_read.h"
#include "engine/base/json.h"
#include "engine/request/speculation.h"
#include "server/config/key_table.h"
#include "server/config/model_folder.h"
#include "server/config/parallel.h"
#include "server/config/speculation.h"
#include "server/config/validate.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxConfigBytes = size_t{1} << 20;

absl::StatusOr<Json> ParseText(const std::string& text, const std::string& path) {
  if (absl::Status s = engine::CheckCommentedJson(text, absl::StrCat("config ", path)); !s.ok()) return s;
  try {
    return Json::parse(text, nullptr, /*allow_exceptions=*/true, /*ignore_comments=*/true);
  } catch (const Json::exception& error) {  // a parse_error, or out_of_range: a number that no double holds
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line 2, ..."
    const size_t end_of_name = what.find("] ");
    return absl::InvalidArgumentError(
        absl::StrCat("config ", path, ": ", end_of_name == std::string::npos ? what : what.substr(end_of_name + 2)));
  }
}

absl::StatusOr<Json> ReadJson(const std::string& path) {
  const absl::StatusOr<std::string> text = engine::ReadRegularFile(path, kMaxConfigBytes);
  if (text.ok()) return ParseText(*text, path);
  return absl::Status(text.status().code(), absl::StrCat("config ", path, ": ", text.status().message()));
}

// Of the values of these keys, as far as they are there.
void AnchorPathsOf(const std::filesystem::path& folder, std::initializer_list<const char*> keys, Json* section) {
  if (!section->is_object()) return;
  for (const char* key : keys) {
    if (!section->contains(key) || !(*section)[key].is_string()) continue;
    const auto value = (*section)[key].get<std::string>();
    if (value.empty() || IsTemplateText(value) || std::filesystem::path(value).is_absolute()) continue;
    (*section)[key] = (folder / value).lexically_normal().string();
  }
}

// Relative paths in a config file are relative to its folder, so that the server can be started from anywhere.
void AnchorPaths(const std::filesystem::path& folder, Json* document) {
  if (!document->is_object()) return;
  if (document->contains("access")) AnchorPathsOf(folder, {"keys_file"}, &(*document)["access"]);
  if (document->contains("tls")) {
    AnchorPathsOf(folder, {"cert_file", "key_file", "client_ca_file"}, &(*document)["tls"]);
  }
  if (document->contains("tracing")) {
    AnchorPathsOf(folder, {"ca_file", "cert_file", "key_file"}, &(*document)["tracing"]);
  }
  if (document->contains("model_repository")) AnchorPathsOf(folder, {"path"}, &(*document)["model_repository"]);
  if (!document->contains("models") || !(*document)["models"].is_array()) return;
  for (Json& model : (*document)["models"]) {
    AnchorPathsOf(folder, {"path", "chat_template", "adapter_folder"}, &model);
    if (!model.is_object() || !model.contains("adapters") || !model["adapters"].is_array()) continue;
    for (Json& adapter : model["adapters"]) AnchorPathsOf(folder, {"path"}, &adapter);
  }
  AnchorDrafts(folder, document);
}

template <typename T>
T Get(const Json& document, const char* pointer) {
  return document.at(Json::json_pointer(pointer)).get<T>();
}

// REQUIRES: the table has the name, which CheckAndComplete has ensured through ConfigKey::choices.
template <typename Row, size_t kRows>
const Row& RowNamed(const Row (&table)[kRows], const std::string& name) {
  return *kernels::FindByName(table, name);
}

size_t GetBytesOrAuto(const Json& document, const char* pointer) {
  const Json& value = document.at(Json::json_pointer(pointer));
  return value.is_string() ? kAutoBytes : value.get<size_t>();
}

engine::Fp8Options ReadFp8(const Json& model) {
  engine::Fp8Options fp8;
  fp8.recipe = RowNamed(engine::kFp8RecipeTable, Get<std::string>(model, "/fp8/recipe")).recipe;
  fp8.amax_history_len = Get<int32_t>(model, "/fp8/amax_history_len");
  if (Get<std::string>(model, "/fp8/amax_compute_algo") == "most_recent") {
    fp8.amax_compute_algo = engine::AmaxComputeAlgo::kMostRecent;
  }
  fp8.margin = Get<int32_t>(model, "/fp8/margin");
  return fp8;
}

// The rows of `table` that a list names, by index; an empty list names all.
template <size_t kBits, typename Row, size_t kRows>
std::bitset<kBits> ReadAllowed(const Json& names, const Row (&table)[kRows]) {
  std::bitset<kBits> allowed;
  for (const Json& name : names) allowed.set(static_cast<size_t>(&RowNamed(table, name.get<std::string>()) - table));
  return names.empty() ? allowed.set() : allowed;
}

engine::EngineOptions ReadEngineOptions(const Json& document, const Json& model) {
  engine::EngineOptions options;
  options.max_sequences = Get<int32_t>(document, "/scheduler/max_sequences");
  options.max_tokens_per_step = Get<int32_t>(document, "/scheduler/max_tokens_per_step");
  options.max_queued_requests = Get<int32_t>(document, "/scheduler/max_queued_requests");
  options.max_queued_tokens = Get<int64_t>(document, "/scheduler/max_queued_tokens");
  options.prefix_cache = Get<bool>(document, "/scheduler/prefix_cache");
  // They come at once, to a client that may lag behind by so many tokens.
  const int32_t max_unsent = Get<int32_t>(document, "/limits/max_unsent_tokens");
  options.max_forced_tokens = std::min(options.max_forced_tokens, max_unsent / 2);
  options.draft_limit = std::min(options.draft_limit, max_unsent / 2);
  options.max_drafts = engine::MaxDraftsNamed(Get<std::string>(model, "/speculation/tokens")).value_or(0);
  options.plan_ahead = Get<bool>(document, "/scheduler/plan_ahead");
  options.step_time_target_ms = Get<int32_t>(document, "/scheduler/step_time_target_ms");
  const Json& allowed = model.at("allowed");
  options.allowed_backends =
      ReadAllowed<kernels::kNumAttentionBackends>(allowed.at("attention_backends"), kernels::kAttentionBackendTable);
  options.allowed_precisions = ReadAllowed<kernels::kNumPrecisions>(allowed.at("precisions"), kernels::kPrecisionTable);
  options.min_priority = Get<int32_t>(allowed, "/min_priority");
  options.max_priority = Get<int32_t>(allowed, "/max_priority");
  options.kv_memory_bytes = GetBytesOrAuto(model, "/kv_cache/memory_bytes");
  options.kv_fp8 = Get<bool>(model, "/kv_cache/fp8");
  options.kv_events.max_batches = Get<int32_t>(model, "/kv_cache/event_batches");
  options.max_context_tokens = Get<int32_t>(model, "/max_context_tokens");
  options.fp8 = ReadFp8(model);
  options.deterministic = Get<bool>(model, "/deterministic");
  if (Get<std::string>(model, "/execution") == "eager") options.execution = engine::ExecutionMode::kEager;
  for (const kernels::AttentionBackendTraits& row : kernels::kAttentionBackendTable) {
    const std::string key = absl::StrCat(engine::kEnableBackendKey, row.name);
    options.Enable(row.backend, Get<bool>(document, ("/" + absl::StrReplaceAll(key, {{".", "/"}})).c_str()));
  }
  return options;
}

// ZeroMQ has neither TLS nor keys here.
absl::Status CheckEndpoint(const std::string& key, const std::string& endpoint, bool behind_proxy) {
  constexpr std::string_view kTcp = "tcp://";
  if (endpoint.empty() || endpoint.starts_with("ipc://")) return absl::OkStatus();
  if (endpoint.starts_with(kTcp)) {
    return CheckExposure(key.c_str(), endpoint.substr(kTcp.size()), {.behind_proxy = behind_proxy});
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is \"", endpoint, "\"; limit is tcp://ADDRESS:PORT or ipc://PATH"));
}

absl::StatusOr<KvEventSettings> ReadKvEvents(const Json& model, bool behind_proxy, const std::string& at) {
  KvEventSettings settings;
  settings.endpoint = Get<std::string>(model, "/kv_cache/events_endpoint");
  settings.replay_endpoint = Get<std::string>(model, "/kv_cache/events_replay_endpoint");
  settings.topic = Get<std::string>(model, "/kv_cache/events_topic");
  settings.hwm = Get<int32_t>(model, "/kv_cache/events_hwm");
  if (!settings.endpoint.empty() && Get<int32_t>(model, "/kv_cache/event_batches") == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(at, ".kv_cache.event_batches is 0; limit is 1 or more with ", at, ".kv_cache.events_endpoint"));
  }
  if (settings.endpoint.empty() && !settings.replay_endpoint.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(at, ".kv_cache.events_endpoint must be given with ", at, ".kv_cache.events_replay_endpoint"));
  }
  absl::Status checked = CheckEndpoint(at + ".kv_cache.events_endpoint", settings.endpoint, behind_proxy);
  if (!checked.ok()) return checked;
  checked = CheckEndpoint(at + ".kv_cache.events_replay_endpoint", settings.replay_endpoint, behind_proxy);
  if (!checked.ok()) return checked;
  return settings;
}

absl::StatusOr<ModelSettings> ReadModel(const Json& document, const Json& model, const std::string& at) {
  ModelSettings settings;
  Json of_values = model;
  of_values.erase("adapters");  // they come and go without a new version of the model
  settings.values = nlohmann::json::parse(of_values.dump()).dump();  // keys in one order
  settings.name = Get<std::string>(model, "/name");
  settings.device = Get<std::string>(model, "/device");
  const auto path = Get<std::string>(model, "/path");
  const auto shape = Get<std::string>(model, "/shape");
  if (Get<std::string>(model, "/weights") == "random") {
    if (shape.empty()) return absl::InvalidArgumentError(absl::StrCat(at, ".shape must be given with random weights"));
    settings.source.random_shape = shape;
    settings.source.random_seed = Get<uint64_t>(model, "/seed");
  } else {
    if (path.empty()) return absl::InvalidArgumentError(absl::StrCat(at, ".path must be given"));
    settings.source.path = path;
  }
  for (const Json& name : model.at("precisions")) {
    settings.source.precisions.push_back(RowNamed(kernels::kPrecisionTable, name.get<std::string>()).precision);
  }
  settings.source.int8_inputs = Get<bool>(model, "/int8_inputs");
  if (absl::Status status = ReadParallel(model, at, &settings); !status.ok()) return status;
  settings.engine = ReadEngineOptions(document, model);
  settings.chat_template = Get<std::string>(model, "/chat_template");
  settings.chat_special_tokens = Get<bool>(model, "/chat_special_tokens");
  settings.tool_parser = Get<std::string>(model, "/tool_parser");
  settings.reasoning_parser = Get<std::string>(model, "/reasoning_parser");
  const absl::StatusOr<KvEventSettings> kv_events =
      ReadKvEvents(model, Get<bool>(document, "/access/behind_proxy"), at);
  if (!kv_events.ok()) return kv_events.status();
  settings.kv_events = *kv_events;
  absl::StatusOr<AdapterSettings> adapters = ReadAdapters(model, at);
  if (!adapters.ok()) return adapters.status();
  settings.adapters = *std::move(adapters);
  settings.engine.adapters = LimitsOf(settings.adapters);
  settings.images = {Get<int32_t>(model, "/images/max_images"), Get<int32_t>(model, "/images/longest_edge"),
                     Get<int64_t>(model, "/images/max_pixels"), Get<size_t>(model, "/images/memory_bytes")};
  settings.idle_unload_s = Get<int32_t>(model, "/idle_unload_s");
  settings.load_wait_ms = Get<int32_t>(model, "/load_wait_ms");
  settings.golden = {Get<std::string>(model, "/golden/prompt"), Get<std::string>(model, "/golden/output")};
  if (settings.golden.prompt.empty() != settings.golden.output.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(at, ".golden.prompt and ", at, ".golden.output must be given together"));
  }
  if (settings.source.precisions.empty()) return settings;  // default_precisions.h knows the first one
  const kernels::Precision first = settings.source.precisions.front();
  if (!settings.engine.allowed_precisions[static_cast<size_t>(first)]) {
    return absl::InvalidArgumentError(absl::StrCat(at, ".allowed.precisions is ", model["allowed"]["precisions"].dump(),
                                                   "; limit is a list with ", kernels::Name(first),
                                                   ", the default of requests (", at, ".precisions)"));
  }
  return settings;
}

absl::StatusOr<TracingSettings> ReadTracing(const Json& document) {
  TracingSettings tracing;
  tracing.otlp_endpoint = Get<std::string>(document, "/tracing/otlp_endpoint");
  // A URL, as OTLP's own variables have it: the scheme says whether there is TLS.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!tracing.otlp_endpoint.starts_with(scheme)) continue;
    tracing.otlp_endpoint.erase(0, scheme.size());
    tracing.tls = scheme == "https://";
    break;
  }
  const bool has_port = tracing.otlp_endpoint.find(':') != std::string::npos;
  if (tracing.otlp_endpoint.find('/') != std::string::npos || (!tracing.otlp_endpoint.empty() && !has_port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tracing.otlp_endpoint is ", document["tracing"]["otlp_endpoint"].dump(),
                     "; limit is host:port, http://host:port, or https://host:port for TLS"));
  }
  tracing.ca_file = Get<std::string>(document, "/tracing/ca_file");
  tracing.cert_file = Get<std::string>(document, "/tracing/cert_file");
  tracing.key_file = Get<std::string>(document, "/tracing/key_file");
  if (tracing.cert_file.empty() != tracing.key_file.empty()) {
    return absl::InvalidArgumentError("tracing.cert_file and tracing.key_file must be given together");
  }
  if (!tracing.tls && !(tracing.ca_file + tracing.cert_file).empty()) {
    return absl::InvalidArgumentError(
        "tracing.ca_file and tracing.cert_file must be given with an https:// address in tracing.otlp_endpoint");
  }
  tracing.service_name = Get<std::string>(document, "/tracing/service_name");
  tracing.sample_per_million = Get<int32_t>(document, "/tracing/sample_per_million");
  tracing.queue_spans = Get<int32_t>(document, "/tracing/queue_spans");
  tracing.export_timeout_ms = Get<int32_t>(document, "/tracing/export_timeout_ms");
  return tracing;
}

absl::StatusOr<TlsSettings> ReadTls(const Json& document) {
  TlsSettings tls;
  tls.cert_file = Get<std::string>(document, "/tls/cert_file");
  tls.key_file = Get<std::string>(document, "/tls/key_file");
  tls.client_ca_file = Get<std::string>(document, "/tls/client_ca_file");
  tls.require_client_certificate = Get<bool>(document, "/tls/require_client_certificate");
  if (tls.cert_file.empty() != tls.key_file.empty()) {
    return absl::InvalidArgumentError("tls.cert_file and tls.key_file must be given together");
  }
  if (tls.cert_file.empty() && !tls.client_ca_file.empty()) {
    return absl::InvalidArgumentError("tls.client_ca_file must be given with tls.cert_file and tls.key_file");
  }
  return tls;
}

absl::Status CheckExposure(const Config& config) {
  const Protection protection = {.has_tls = !config.tls.cert_file.empty(),
                                 .has_keys = !config.keys_file.empty(),
                                 .behind_proxy = config.behind_proxy};
  absl::Status status = CheckExposure("listen.grpc", config.grpc_address, protection);
  return status.ok() ? CheckExposure("listen.http", config.http_address, protection) : status;
}

std::map<std::string, std::string> Values(const Json& document) {
  std::map<std::string, std::string> values;
  const Json flat = document.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    values[absl::StrReplaceAll(pointer.substr(1), {{"/", "."}})] = value.dump();
  }
  return values;
}

// names: of the models; those of their adapters join them.
absl::Status CheckAdapterNames(const std::vector<ModelSettings>& models, std::set<std::string>* names) {
  for (size_t i = 0; i < models.size(); ++i) {
    for (size_t k = 0; k < models[i].adapters.list.size(); ++k) {
      const std::string& name = models[i].adapters.list[k].name;
      if (names->insert(name).second) continue;
      return absl::InvalidArgumentError(absl::StrCat("models[", i, "].adapters[", k, "].name is \"", name,
                                                     "\"; limit is a name that no other model or adapter has"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> ReadConfig(const Json& document) {
  Config config;
  config.values = Values(document);
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.set == nullptr) continue;
    const std::string pointer = absl::StrCat("/", absl::StrReplaceAll(key.path, {{".", "/"}}));
    key.set(document.at(Json::json_pointer(pointer)), &config);
  }
  absl::StatusOr<TlsSettings> tls = ReadTls(document);
  if (!tls.ok()) return tls.status();
  config.tls = *std::move(tls);
  if (absl::Status status = CheckExposure(config); !status.ok()) return status;
  config.memory.limit_bytes = GetBytesOrAuto(document, "/memory/limit_bytes");
  config.memory.request_bytes = GetBytesOrAuto(document, "/memory/request_bytes");
  if (config.device.cpu_variant == "auto") config.device.cpu_variant.clear();
  absl::StatusOr<TracingSettings> tracing = ReadTracing(document);
  if (!tracing.ok()) return tracing.status();
  config.tracing = *std::move(tracing);
  std::set<std::string> names;
  for (size_t i = 0; i < document.at("models").size(); ++i) {
    const std::string at = absl::StrCat("models[", i, "]");
    absl::StatusOr<ModelSettings> settings = ReadModel(document, document["models"][i], at);
    if (!settings.ok()) return settings.status();
    if (!names.insert(settings->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(at, ".name is \"", settings->name, "\"; limit is one model per name"));
    }
    config.models.push_back(*std::move(settings));
  }
  if (absl::Status status = ReadDrafts(document, &config.models); !status.ok()) return status;
  if (absl::Status status = CheckAdapterNames(config.models, &names); !status.ok()) return status;
  return config;
}

// served: as AddRepositoryModels'.
absl::StatusOr<Config> CheckAndRead(Json document, const ModelPaths* served) {
  const Json given = document;
  absl::StatusOr<std::vector<std::string>> left_out = AddRepositoryModels(served, &document);
  if (!left_out.ok()) return left_out.status();
  if (absl::Status status = CheckAndComplete(&document); !status.ok()) return status;
  absl::StatusOr<Config> config = ReadConfig(document);
  if (!config.ok()) return config;
  config->left_out_of_repository = *std::move(left_out);
  if (!config->model_repository.empty()) config->without_repository = given.dump();
  return config;
}

absl::StatusOr<Config> Finish(Json document, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) {
    if (absl::Status status = ApplyOverride(assignment, &document); !status.ok()) return status;
  }
  return CheckAndRead(std::move(document), nullptr);
}

}  // namespace

bool IsTemplateText(std::string_view value) {
  return value.find("{{") != std::string_view::npos || value.find("{%") != std::string_view::npos ||
         value.find('\n') != std::string_view::npos;
}

absl::StatusOr<Config> LoadConfig(const std::string& path, const std::vector<std::string>& overrides) {
  absl::StatusOr<Json> document = ReadJson(path);
  if (!document.ok()) return document.status();
  AnchorPaths(std::filesystem::absolute(path).parent_path(), &*document);
  return Finish(*std::move(document), overrides);
}

absl::StatusOr<Config> LoadConfigText(const std::string& text, const std::vector<std::string>& overrides) {
  absl::StatusOr<Json> document = ParseText(text, "text");
  if (!document.ok()) return document.status();
  return Finish(*std::move(document), overrides);
}

absl::StatusOr<Config> WithRepository(const Config& config, const std::vector<ModelSettings>& served) {
  absl::StatusOr<Json> document = ParseText(config.without_repository, "with model_repository.path");
  if (!document.ok()) return document.status();
  ModelPaths paths;
  for (const ModelSettings& model : served) paths[model.name] = model.source.path;
  return CheckAndRead(*std::move(document), &paths);
}

}  // namespace dunlin::server
