// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/adapter_file.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_config.h"
#include "engine/base/file.h"
#include "engine/base/string_view.h"
#include "engine/model/checkpoint/checkpoint_file.h"
#include "engine/model/checkpoint/gguf/gguf_file.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr std::string_view kWrapped = ".base_layer";
// The base's own matrix, which PEFT writes next to the pair of an output embedding.
constexpr std::string_view kBaseWeight = ".base_layer.weight";
constexpr std::string_view kWeight = "weight";  // a parameter that is its module's matrix
constexpr uint64_t kMaxTypeBytes = 64;          // of general.type

// The endings of the names of both halves.
struct Halves {
  std::string_view down;
  std::string_view up;
};
constexpr Halves kPeft = {".lora_A.weight", ".lora_B.weight"};
constexpr Halves kGguf = {".weight.lora_a", ".weight.lora_b"};

using Modules = std::map<std::string, AdapterModule, std::less<>>;

absl::Status Refused(const std::string& file, std::string_view tensor, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": tensor '", AbslView(tensor), "' ", why));
}

// What a tensor that is no half of a pair belongs to.
std::string KindOf(std::string_view tensor) {
  const auto has = [tensor](std::string_view part) { return tensor.find(part) != std::string_view::npos; };
  if (has("lora_magnitude_vector")) return "is of DoRA, which is not served";
  if (has("lora_embedding_")) return "adapts an embedding; adapters of projections are served";
  if (has("modules_to_save")) return "is of modules_to_save, which is not served";
  return "is no half of a pair of low-rank matrices; others are not served";
}

// Puts a tensor where its name says. dtype_name: null where it can be loaded.
absl::Status AddTensor(AdapterMatrix matrix, std::string_view name, const Halves& halves, const char* dtype_name,
                       Modules* modules) {
  const bool is_down = name.ends_with(halves.down);
  if (!is_down && !name.ends_with(halves.up)) return Refused(matrix.file, matrix.tensor, KindOf(matrix.tensor));
  if (dtype_name != nullptr) {
    return Refused(matrix.file, matrix.tensor,
                   absl::StrCat("has dtype ", dtype_name, "; adapters are loaded from F32, F16 and BF16"));
  }
  name.remove_suffix(is_down ? halves.down.size() : halves.up.size());
  AdapterModule& module = (*modules)[std::string(name)];
  module.name = name;
  (is_down ? module.down : module.up) = std::move(matrix);
  return absl::OkStatus();
}

bool IsLoadable(const std::optional<kernels::DType>& dtype) {
  return dtype == kernels::DType::kF32 || dtype == kernels::DType::kF16 || dtype == kernels::DType::kBF16;
}

// The modules, moved out of *modules: at least one, each with both halves.
absl::StatusOr<std::vector<AdapterModule>> Checked(const std::string& file, const Halves& halves, Modules* modules) {
  if (modules->empty()) return absl::InvalidArgumentError(absl::StrCat(file, ": has no low-rank matrices"));
  std::vector<AdapterModule> list;
  list.reserve(modules->size());
  for (auto& [name, module] : *modules) {
    const bool lacks_down = module.down.tensor.empty();
    if (lacks_down || module.up.tensor.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(file, ": module '", name, "' lacks its ",
                                                     AbslView((lacks_down ? halves.down : halves.up).substr(1))));
    }
    list.push_back(std::move(module));
  }
  return list;
}

absl::StatusOr<Modules> PeftModules(const Directory& directory) {
  absl::StatusOr<CheckpointFile> opened = OpenSafetensorsFile(directory, kWeightsFile);
  if (!opened.ok()) return opened.status();
  const auto file = std::make_shared<const CheckpointFile>(*std::move(opened));
  Modules modules;
  std::vector<std::string_view> bases;
  for (const TensorInfo& tensor : file->tensors()) {
    std::string_view name = tensor.name;
    if (!name.starts_with(kPeftPrefix)) {
      return Refused(kWeightsFile, name, absl::StrCat("does not begin with ", AbslView(kPeftPrefix)));
    }
    name.remove_prefix(kPeftPrefix.size());
    if (name.ends_with(kBaseWeight)) {
      bases.push_back(name.substr(0, name.size() - kBaseWeight.size()));
      continue;
    }
    const bool loadable = IsLoadable(tensor.dtype->loadable);
    AdapterMatrix matrix{.tensor = tensor.name,
                         .file = kWeightsFile,
                         .shape = tensor.shape,
                         .dtype = tensor.dtype->loadable.value_or(kernels::DType::kF32),
                         .read = [file, &tensor](std::span<std::byte> out) {
                           const absl::Status status = file->Read(tensor, 0, out);
                           return status.ok() ? file->CheckUnchanged() : status;
                         }};
    absl::Status added = AddTensor(std::move(matrix), name, kPeft, loadable ? nullptr : tensor.dtype->name, &modules);
    if (!added.ok()) return added;
  }
  for (const std::string_view base : bases) {
    if (modules.contains(base)) continue;
    const std::string name = absl::StrCat(AbslView(base), AbslView(kBaseWeight));
    return Refused(kWeightsFile, name, KindOf(name));
  }
  return modules;
}

// What a pair of a PEFT file adapts: a module, or a parameter of one, which PEFT wraps once for each of them.
struct Adapted {
  std::string name;  // AdapterModule::name
  std::string path;  // that patterns of ranks match
};

absl::StatusOr<Adapted> AdaptedBy(const AdapterConfig& config, const std::string& name) {
  size_t depth = 0;
  std::string_view module = name;
  for (; module.ends_with(kWrapped); ++depth) module.remove_suffix(kWrapped.size());
  const std::vector<std::string> parameters = config.ParametersOf(module);
  if (parameters.empty() && depth == 0 && config.Targets(module)) return Adapted{name, name};
  if (depth >= parameters.size()) {
    return absl::InvalidArgumentError(absl::StrCat(kWeightsFile, ": has module '", name,
                                                   "', which target_modules and target_parameters of ", kConfigFile,
                                                   " do not name"));
  }
  const std::string& parameter = parameters[parameters.size() - 1 - depth];
  std::string path = absl::StrCat(AbslView(module), ".", parameter);
  return Adapted{parameter == kWeight ? std::string(module) : path, path};
}

// Under the names of what they adapt, with what the config says of them.
absl::StatusOr<Modules> WithConfig(const AdapterConfig& config, const Modules& modules) {
  Modules named;
  for (const auto& [name, found] : modules) {
    absl::StatusOr<Adapted> adapted = AdaptedBy(config, name);
    if (!adapted.ok()) return adapted.status();
    AdapterModule module = found;
    module.name = std::move(adapted->name);
    module.rank = config.RankOf(adapted->path);
    module.alpha = config.AlphaOf(adapted->path);
    module.rank_stabilized = config.rank_stabilized;
    if (const std::string own = module.name; !named.emplace(own, std::move(module)).second) {
      return absl::InvalidArgumentError(absl::StrCat(kWeightsFile, ": adapts '", own, "' twice"));
    }
  }
  return named;
}

// general.type, adapter.type and adapter.lora.alpha.
absl::StatusOr<double> ReadAlpha(const GgufFile& file) {
  GgufFields fields(file);
  const std::string type = fields.Text("general.type", kMaxTypeBytes);
  if (type != "adapter") fields.Fail("general.type", absl::StrCat("is '", type, "'; an adapter's is 'adapter'"));
  const std::string kind = fields.Text("adapter.type", kMaxTypeBytes);
  if (kind != "lora") fields.Fail("adapter.type", absl::StrCat("is '", kind, "'; 'lora' is served"));
  const std::optional<double> alpha = fields.Number("adapter.lora.alpha");
  if (!alpha.has_value()) fields.Fail("adapter.lora.alpha", "is missing");
  if (std::abs(alpha.value_or(0)) > kMaxAdapterAlpha) {
    fields.Fail("adapter.lora.alpha", absl::StrCat("is ", *alpha, "; limit is ", kMaxAdapterAlpha, " of either sign"));
  }
  if (!fields.status().ok()) {
    return absl::Status(fields.status().code(), absl::StrCat(file.file().name(), ": ", fields.status().message()));
  }
  return *alpha;
}

}  // namespace

absl::StatusOr<std::vector<AdapterModule>> OpenPeftAdapter(const std::string& path) {
  const absl::StatusOr<Directory> directory = Directory::Open(path);
  if (!directory.ok()) return directory.status();
  const absl::StatusOr<std::string> text = directory->ReadFile(kConfigFile, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<AdapterConfig> config = ParseAdapterConfig(*text);
  if (!config.ok()) return config.status();
  absl::StatusOr<Modules> modules = PeftModules(*directory);
  if (!modules.ok()) return modules.status();
  modules = WithConfig(*config, *modules);
  if (!modules.ok()) return modules.status();
  return Checked(kWeightsFile, kPeft, &*modules);
}

absl::StatusOr<std::vector<AdapterModule>> OpenGgufAdapter(const std::string& path) {
  const std::filesystem::path file_path(path);
  const absl::StatusOr<Directory> directory =
      Directory::Open(file_path.has_parent_path() ? file_path.parent_path().string() : ".");
  if (!directory.ok()) return directory.status();
  absl::StatusOr<GgufFile> opened = GgufFile::Open(*directory, file_path.filename().string());
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<double> alpha = ReadAlpha(*opened);
  if (!alpha.ok()) return alpha.status();
  const auto file = std::make_shared<const GgufFile>(*std::move(opened));
  Modules modules;
  for (const GgufTensor& tensor : file->header().tensors) {
    const TensorDType& stored = tensor.type->presented;
    const bool loadable = tensor.type->dequantize == nullptr && IsLoadable(stored.loadable);
    AdapterMatrix matrix{.tensor = tensor.name,
                         .file = file->file().name(),
                         .shape = tensor.shape,
                         .dtype = stored.loadable.value_or(kernels::DType::kF32),
                         .read = [file, &tensor](std::span<std::byte> out) {
                           const absl::Status status = file->file().ReadAt(tensor.offset, out);
                           return status.ok() ? file->file().CheckUnchanged() : status;
                         }};
    absl::Status added = AddTensor(std::move(matrix), tensor.name, kGguf, loadable ? nullptr : "of blocks", &modules);
    if (!added.ok()) return added;
  }
  for (auto& [name, module] : modules) module.alpha = *alpha;
  return Checked(file->file().name(), kGguf, &modules);
}

}  // namespace dunlin::engine
