// SPDX-License-Identifier: Apache-2.0
// `dunlin inspect DIR`: a model's sizes, read from file headers alone, and the profiles this machine supports for it.
// `dunlin inspect --device KIND` is inspect_device's, `--adapter PATH` inspect_adapter's.
#include "engine/model/load/inspect.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_name.h"
#include "engine/encoder/embedding_settings.h"
#include "engine/model/load/gguf_model.h"
#include "engine/model/spec/rank_config.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/profiles.h"
#include "kernels/api/device.h"
#include "server/commands/command.h"
#include "server/commands/inspect_adapter.h"
#include "server/commands/inspect_device.h"
#include "server/commands/inspect_memory.h"
#include "server/models/devices.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string directory;
  std::string random_shape;
  std::string precisions;
  std::string device;
  std::string adapter;
  kernels::DeviceOptions device_options;
  int32_t tensor = 1;
  bool json = false;
};

Json ProfileJson(const engine::ProfileSupport& row) {
  return {{"device", Name(row.profile.device)},
          {"attention_backend", Name(row.profile.attention_backend)},
          {"precision", Name(row.profile.precision)},
          {"supported", row.supported},
          {"reasons", row.reasons}};
}

// The profiles of every kind of device, the CPU's first. If no device of a kind can be opened, its rows give the
// reason.
Json ProfilesJson(const engine::ModelConfig& config, const kernels::Device& cpu) {
  Json rows = Json::array();
  constexpr auto kPrecisions = kernels::EnumeratorsOf(kernels::kPrecisionTable, &kernels::PrecisionTraits::precision);
  const std::vector<engine::Precision> precisions(kPrecisions.begin(), kPrecisions.end());
  kernels::DeviceOptions options;
  options.cuda_module = options.cublas_library = "auto";
  for (const kernels::DeviceKindTraits& kind : kernels::kDeviceKindTable) {
    std::unique_ptr<kernels::Device> opened;
    std::string reason;
    if (kind.kind != cpu.ops->kind) opened = kernels::OpenDevice(kind.kind, ResolveDeviceOptions(options), &reason);
    const engine::ProfileTable table(config, precisions, opened == nullptr ? cpu : *opened, engine::EngineOptions());
    for (engine::ProfileSupport row : table.rows()) {
      row.profile.device = kind.kind;
      if (!reason.empty()) {
        row.supported = false;
        row.reasons = {reason};
      }
      rows.push_back(ProfileJson(row));
    }
  }
  return rows;
}

// The embedding settings of an encoder's files; the defaults for random weights.
absl::StatusOr<Json> EmbeddingJson(const engine::ModelSummary& summary, const std::string& path) {
  absl::StatusOr<engine::EmbeddingSettings> settings = engine::EmbeddingSettings();
  if (!path.empty()) {
    const auto files = engine::OpenModelFiles(path);
    if (!files.ok()) return files.status();
    settings = engine::ReadEmbeddingSettings(**files, summary.config.classifier.num_labels);
  }
  if (!settings.ok()) return settings.status();
  return Json{{"dimensions", summary.config.hidden_dim},
              {"pooling", Name(settings->pooling)},
              {"normalize", settings->normalize},
              {"max_input_tokens", settings->max_input_tokens == 0
                                       ? summary.config.max_context
                                       : std::min(settings->max_input_tokens, summary.config.max_context)}};
}

Json ImageEncoderJson(const engine::ImageEncoderSummary& encoder) {
  const engine::ModelConfig& config = encoder.config;
  Json json = {{"architecture", config.architecture},   {"parameters", encoder.num_parameters},
               {"layers", config.num_layers},           {"hidden_dim", config.hidden_dim},
               {"patch_size", config.image.patch_size}, {"patches_per_token", config.image.patches_per_row()},
               {"max_patches", config.max_context}};
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
    const size_t bytes = encoder.weight_bytes[static_cast<size_t>(row.precision)];
    if (bytes > 0) json["weights_bytes"][row.name] = bytes;
  }
  return json;
}

Json SummaryJson(const engine::ModelSummary& summary, const kernels::Device& cpu) {
  const engine::ModelConfig& config = summary.config;
  Json json = {{"architecture", config.architecture},       {"kind", config.is_encoder() ? "encoder" : "decoder"},
               {"parameters", summary.num_parameters},      {"layers", config.num_layers},
               {"hidden_dim", config.hidden_dim},           {"heads", config.attention.num_heads},
               {"kv_heads", config.attention.num_kv_heads}, {"head_dim", config.attention.head_dim},
               {"vocab_size", config.vocab_size},           {"max_context_tokens", config.max_context}};
  if (summary.image_encoder.has_value()) {
    json["image_encoder"] = ImageEncoderJson(*summary.image_encoder);
  } else if (config.text_part) {
    json["served_part"] = "text";
  }
  for (const engine::SkippedTensors& skipped : summary.skipped) {
    json["skipped_tensors"].push_back({{"prefix", skipped.prefix}, {"part", skipped.part}, {"tensors", skipped.count}});
  }
  if (config.has_experts() || config.has_layer_inputs()) {
    json["active_parameters"] = summary.num_active_parameters;  // that one token goes through
  }
  if (!config.attention.kv_sources.empty()) {
    const std::vector<int32_t>& sources = config.attention.kv_sources;
    json["kv_layers"] =
        std::set<int32_t>(sources.begin(), sources.end()).size();  // the others read those of one of them
  }
  if (config.has_experts()) {
    json["experts"] = config.experts.routing.num_experts;
    json["experts_per_token"] = config.experts.routing.num_chosen;
  }
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
    json["weights_bytes"][row.name] = summary.weight_bytes[static_cast<size_t>(row.precision)];
  }
  if (summary.own_precision) {
    Json formats;
    for (const kernels::WeightFormatTraits& row : kernels::kWeightFormatTable) {
      const size_t bytes = summary.own_formats[static_cast<size_t>(row.format)];
      if (bytes > 0) formats[row.name] = bytes;
    }
    json["checkpoint_quantization"] = {{"precision", Name(*summary.own_precision)},
                                       {"matrices_bytes", std::move(formats)}};
  }
  if (config.is_recurrent()) {
    json["recurrent_layers"] = config.num_recurrent_layers();
    json["state_bytes"] = engine::StateBytesOf(config);  // of a running sequence, and of one that the cache keeps
    json["prefix_cache"] = "a hit ends where a state of the recurrent layers is kept";
  }
  for (const auto& kv : summary.kv_bytes_per_token) json["kv_bytes_per_token"][Name(kv.dtype)] = kv.bytes_per_token;
  json["profiles"] = ProfilesJson(config, cpu);
  json["warnings"] = summary.warnings;
  return json;
}

// "6254714496     5.83 GiB"; a value that is no size of a mebibyte or more as it is.
std::string WithUnit(const std::string& key, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  constexpr double kMib = 1024.0 * 1024.0;
  const double mib = value.get<double>() / kMib;
  if (!key.ends_with("_bytes") || mib < 1) return value.dump();
  return absl::StrFormat("%-14s %.2f %s", value.dump(), mib < 1024 ? mib : mib / 1024, mib < 1024 ? "MiB" : "GiB");
}

// One line for each profile; one for all of a device that has none, for the same reason.
void PrintProfiles(const Json& profiles) {
  std::map<std::string, std::set<std::string>> answers;  // by device
  const auto answer = [](const Json& row) {
    const auto reasons = row["reasons"].get<std::vector<std::string>>();
    return row["supported"].get<bool>() ? std::string("yes") : absl::StrCat("no: ", absl::StrJoin(reasons, "; "));
  };
  for (const Json& row : profiles) answers[row["device"].get<std::string>()].insert(answer(row));
  std::cout << absl::StreamFormat("\n%-7s %-10s %-10s %s\n", "device", "backend", "precision", "supported");
  std::set<std::string> printed;
  for (const Json& row : profiles) {
    const auto device = row["device"].get<std::string>();
    const bool all = answers[device].size() == 1 && answer(row) != "yes";
    if (all && !printed.insert(device).second) continue;
    std::cout << absl::StreamFormat("%-7s %-10s %-10s %s\n", device,
                                    all ? "all" : row["attention_backend"].get<std::string>(),
                                    all ? "all" : row["precision"].get<std::string>(), answer(row));
  }
}

void PrintModelTable(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (key != "profiles" && key != "warnings" && key != "memory")
      std::cout << absl::StreamFormat("%-20s %s\n", key, value.dump());
  }
  std::cout << "\nmemory of `dunlin serve`, in bytes\n";
  for (const auto& [key, value] : json["memory"].items()) {
    std::cout << absl::StreamFormat("%-20s %s\n", key, WithUnit(key, value));
  }
  PrintProfiles(json["profiles"]);
  for (const Json& warning : json["warnings"]) std::cout << "warning: " << warning.get<std::string>() << "\n";
}

// What each rank of a divided model has.
Json RanksJson(const engine::ModelConfig& config, int32_t num_ranks) {
  Json rows = Json::array();
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const engine::RankShare share = engine::ShareOf(engine::RankConfig(config, rank, num_ranks));
    Json row = Json::object();
    const auto add = [&row](const char* name, int32_t count) {
      if (count > 0) row[name] = count;
    };
    add("heads", share.heads);
    add("kv_heads", share.kv_heads);
    add("recurrent_heads", share.recurrent_heads);
    add("channels", share.channels);
    add("ffn_dim", share.ffn_dim);
    add("expert_ffn_dim", share.expert_ffn_dim);
    add("hidden_columns", share.hidden_columns);
    add("vocab_rows", share.vocab_rows);
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<Json> Inspect(const InspectOptions& options, kernels::Device* device) {
  const kernels::Device& cpu = *device;
  engine::ModelSource source;
  source.path = options.directory;
  source.random_shape = options.random_shape;
  source.num_ranks = options.tensor;
  const absl::StatusOr<engine::ModelSummary> summary = engine::InspectModel(source, *cpu.ops);
  if (!summary.ok()) return summary.status();
  Json json = SummaryJson(*summary, cpu);
  if (options.tensor > 1) json["ranks"] = RanksJson(summary->config, options.tensor);
  absl::StatusOr<Json> memory = MemoryJson(source, options.precisions, device);
  if (!memory.ok()) return memory.status();
  json["memory"] = *std::move(memory);
  if (!summary->config.is_encoder()) return json;
  absl::StatusOr<Json> embedding = EmbeddingJson(*summary, options.directory);
  if (!embedding.ok()) return embedding.status();
  json["embedding"] = *std::move(embedding);
  return json;
}

int RunInspect(const InspectOptions& options) {
  std::string error;
  const auto cpu = kernels::OpenDevice(kernels::DeviceKind::kCpu, {}, &error);
  if (cpu == nullptr) {
    std::cerr << "cpu: " << error << "\n";
    return kExitFailed;
  }
  const absl::StatusOr<Json> json = Inspect(options, cpu.get());
  if (!json.ok()) {
    const std::string message(json.status().message());
    const std::string code = engine::StatusName(json.status().code());
    if (options.json) {
      std::cout << Json{{"error", {{"code", code}, {"message", message}, {"details", Json::array()}}}}.dump() << "\n";
    } else {
      std::cerr << code << ": " << message << "\n";
    }
    return kExitFailed;
  }
  if (options.json) {
    std::cout << json->dump() << "\n";
  } else {
    PrintModelTable(*json);
  }
  return kExitOk;
}

}  // namespace

std::function<int()> SetUpInspect(CLI::App* subcommand) {
  auto options = std::make_shared<InspectOptions>();
  CLI::Option* directory =
      subcommand->add_option("directory", options->directory, "A Hugging Face model directory or a GGUF file");
  CLI::Option* shape = subcommand->add_option("--shape", options->random_shape,
                                              "Instead of a directory: gpt2-124m, gpt2-xl, llama-1b, llama-8b, "
                                              "qwen3-0.6b, mistral-7b, qwen3-30b-a3b-8l, deepseek-v2-lite-4l or a "
                                              "config.json");
  directory->excludes(shape);
  options->device_options.cuda_module = options->device_options.cublas_library = "auto";
  CLI::Option* device =
      subcommand->add_option("--device", options->device, "Instead of a model: what this device offers")
          ->check(CLI::IsMember(kernels::NamesOf(kernels::kDeviceKindTable)))
          ->excludes(directory)
          ->excludes(shape);
  subcommand->add_option("--cuda-module", options->device_options.cuda_module, "With --device: as compute.cuda_module")
      ->needs(device);
  subcommand
      ->add_option("--cublas-library", options->device_options.cublas_library,
                   "With --device: as compute.cublas_library")
      ->needs(device);
  subcommand
      ->add_option("--precision", options->precisions,
                   "With a model: the precisions of its memory plan, bf16,fp8 for example, as of dunlin serve")
      ->excludes(device);
  subcommand
      ->add_option("--adapter", options->adapter,
                   "What a LoRA adapter holds (a PEFT directory or a GGUF file), and whether it fits the model of the "
                   "directory, whose weights are loaded for that")
      ->excludes(device)
      ->excludes(shape);
  subcommand
      ->add_option("--tensor", options->tensor,
                   "With a model: what each rank has of it, and its memory plan, as of models[].parallel.tensor")
      ->check(CLI::Range(1, engine::kMaxRanks))
      ->excludes(device);
  subcommand->add_flag("--json", options->json, "Print one JSON object");
  return [options] {
    if (!options->adapter.empty()) return InspectAdapter(options->adapter, options->directory, options->json);
    if (!options->device.empty()) {
      const auto* row = kernels::FindByName(kernels::kDeviceKindTable, options->device);
      return InspectDevice(row->kind, options->device_options, options->json);
    }
    if (options->directory.empty() == options->random_shape.empty()) {
      std::cerr << "give a model directory, --shape or --device\n";
      return kExitUsage;
    }
    return RunInspect(*options);
  };
}

}  // namespace dunlin::server
