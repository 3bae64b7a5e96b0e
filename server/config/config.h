// SPDX-License-Identifier: Apache-2.0
// The server's configuration after loading: validated, with defaults filled in, constant from then on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/load/model_source.h"
#include "engine/request/options.h"
#include "kernels/api/device.h"
#include "server/access/limits.h"
#include "server/config/adapter_settings.h"

namespace dunlin::server {

// A size that the config leaves to the server.
inline constexpr size_t kAutoBytes = 0;

// Where KV events are published (server/transport/zmq/event_publisher.h).
struct KvEventSettings {
  std::string endpoint;  // "": they are not
  std::string replay_endpoint;
  std::string topic;
  int32_t hwm = 0;
};

// What a model must say before it serves (server/models/golden_check.h). Both empty: nothing.
struct GoldenPrompt {
  std::string prompt;
  std::string output;
};

// What a model takes of images; of models that see them.
struct ImageSettings {
  int32_t max_images = 0;    // of a request; 0: none, and the image encoder is not loaded
  int32_t longest_edge = 0;  // pixels that an image is scaled down to; 0: as the model's files say
  int64_t max_pixels = 0;    // of a file
  size_t memory_bytes = 0;   // of rows
};

// A model that guesses the tokens of another one.
struct DraftSettings {
  engine::ModelSource source;  // without a path and a shape: there is none
  int32_t max_sequences = 0;   // that it guesses for at once
  size_t kv_memory_bytes = 0;  // no key: from the memory plan

  bool given() const { return !source.path.empty() || !source.random_shape.empty(); }
};

struct ModelSettings {
  std::string name;
  engine::ModelSource source;
  std::string device;                     // "auto", "cpu" or "cuda"
  std::vector<int32_t> rank_devices;      // CUDA: of the ranks of source.num_ranks; empty: 0, 1, 2, ...
  engine::EngineOptions engine;           // kv_memory_bytes and adapters.max_bytes may be kAutoBytes
  std::string chat_template;              // a template's text or file; "": the model's own
  std::string text_worker;                // program of its text workers; "": none. No key: serve.cc sets it
  TextWorkLimits text_work;               // no key: from the memory plan (request_memory.h)
  bool chat_special_tokens = false;       // a request may let special tokens in its messages be parsed
  std::string tool_parser = "auto";       // "auto", "none", or the name of a ToolFormat
  std::string reasoning_parser = "auto";  // the same of a ReasoningFormat
  DraftSettings draft;
  ImageSettings images;
  KvEventSettings kv_events;
  GoldenPrompt golden;
  AdapterSettings adapters;
  int32_t idle_unload_s = 0;  // 0: it stays loaded
  int32_t load_wait_ms = 0;   // of a request, with idle_unload_s
  std::string values;         // every key of it but `adapters` with its value, to compare two by
};

// All empty: no TLS.
struct TlsSettings {
  std::string cert_file;
  std::string key_file;
  std::string client_ca_file;
  bool require_client_certificate = true;
};

struct MemorySettings {
  size_t limit_bytes = kAutoBytes;
  size_t request_bytes = kAutoBytes;
  int32_t share_percent = 90;
};

struct TracingSettings {
  std::string otlp_endpoint;  // "host:port"; "": no tracing
  bool tls = false;
  std::string ca_file;    // with tls; "": the system's authorities
  std::string cert_file;  // with tls; both or none
  std::string key_file;
  std::string service_name;
  int32_t sample_per_million = 0;
  int32_t queue_spans = 0;
  int32_t export_timeout_ms = 0;
};

// Whether a value of models[].chat_template is the template itself and not the path of its file.
bool IsTemplateText(std::string_view value);

struct Config {
  std::string grpc_address;
  std::string http_address;
  std::string reflection;  // "auto", "on" or "off"
  std::string keys_file;   // "": no keys are asked for
  TlsSettings tls;
  bool behind_proxy = false;
  bool admin_without_keys = false;
  std::vector<ModelSettings> models;  // those of the repository folder too
  std::string model_repository;       // "": there is none
  int32_t model_repository_poll_s = 0;
  int32_t model_repository_settle_s = 0;
  std::vector<std::string> left_out_of_repository;  // FoundModels::left_out
  std::string without_repository;  // with a repository folder: the document before its models were added
  MemorySettings memory;
  Limits limits;
  int32_t max_http_connections = 0;
  int32_t max_http_connections_per_address = 0;
  std::string http_cors_origins;  // separated by spaces
  std::string http_host_names;    // separated by spaces
  int32_t http_read_timeout_ms = 0;
  int32_t http_idle_timeout_ms = 0;
  int32_t sse_keepalive_ms = 0;  // 0: never
  bool profile_aliases = false;
  int64_t drain_timeout_ms = 0;
  int64_t stall_ms = 0;
  int64_t exit_after_ms = 0;  // of a stall; 0: never
  kernels::DeviceOptions device;
  int32_t text_threads = 0;
  std::string log_level;
  std::string log_format;
  TracingSettings tracing;
  // Every key and its value as JSON: "models.0.path" -> "\"/m\"". Front ends take theirs, protocols.*, from here.
  std::map<std::string, std::string> values;
};

// Reads a JSON file (comments allowed), applies `overrides` in order ("models.0.path=DIR": parsed as JSON, or taken as
// a string if that fails), adds the models of model_repository.path (model_folder.h), checks every key against the
// table and fills in the defaults. Relative paths of models and TLS files are resolved against the file's folder, those
// of overrides against the working directory. Errors: NOT_FOUND (no file), INVALID_ARGUMENT naming the key's path, the
// value and the limit; an address that other machines can reach, as CheckExposure.
absl::StatusOr<Config> LoadConfig(const std::string& path, const std::vector<std::string>& overrides);

// The same for a document that is not in a file: relative paths are resolved against the working directory.
absl::StatusOr<Config> LoadConfigText(const std::string& text, const std::vector<std::string>& overrides);

// The config with the models that its repository folder has now. served: what is served of it. Errors: as LoadConfig's,
// of keys and the folder.
absl::StatusOr<Config> WithRepository(const Config& config, const std::vector<ModelSettings>& served);

}  // namespace dunlin::server
