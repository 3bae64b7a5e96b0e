// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/ollama/model_documents.h"

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "engine/model/load/gguf_model.h"
#include "server/access/key_digest.h"
#include "server/json/json_value.h"
#include "server/serving/chat/chat_prompt.h"

namespace dunlin::server::ollama {
namespace {

// Of a model that stays: as of one with "keep_alive": -1.
constexpr char kNever[] = "2318-01-01T00:00:00Z";

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
}

// "8.0B", "137M"
std::string ParameterSize(int64_t parameters) {
  const auto count = static_cast<double>(parameters);
  if (count >= 1e9) return absl::StrFormat("%.1fB", count / 1e9);
  if (count >= 1e6) return absl::StrFormat("%.0fM", count / 1e6);
  return absl::StrFormat("%.0fK", count / 1e3);
}

// The name's own: clients tell models apart by it, and there are no manifests.
std::string DigestOfName(const std::string& name) {
  return DigestText(DigestOf(name)).substr(std::string_view("sha256:").size());
}

Json DetailsOfModel(const ListedModel& listed) {
  Json details = {{"parent_model", listed.parent}};
  if (listed.model == nullptr) {
    details.update({{"format", ""}, {"family", ""}, {"families", Json()}, {"parameter_size", ""}});
    details["quantization_level"] = "";
    return details;
  }
  const engine::Model& model = *listed.model->model;
  const std::string& family = model.config().architecture;
  details["format"] = engine::IsGgufPath(listed.model->directory) ? "gguf" : "safetensors";
  details["family"] = family;
  details["families"] = Json::array({family});
  details["parameter_size"] = ParameterSize(model.num_parameters());
  details["quantization_level"] = absl::AsciiStrToUpper(kernels::Name(model.precisions().front()));
  details["context_length"] = listed.max_context_tokens;
  details["embedding_length"] = model.config().hidden_dim;
  return details;
}

Json CapabilitiesOf(const ListedModel& listed) {
  if (listed.encoder) return Json::array({"embedding"});
  Json capabilities = Json::array({"completion"});
  if (listed.model == nullptr || !CheckChats(*listed.model).ok()) return capabilities;
  const ServedModel& model = *listed.model;
  if (model.chat_forms.calls != nullptr) capabilities.push_back("tools");
  if (model.chat_forms.reasoning != nullptr) capabilities.push_back("thinking");
  if (model.sees_images()) capabilities.push_back("vision");
  return capabilities;
}

// Weights of the precision that requests get where they name none.
size_t WeightBytes(const ListedModel& listed) {
  if (listed.model == nullptr) return 0;
  const engine::Model& model = *listed.model->model;
  return model.weight_bytes(model.precisions().front());
}

using ListedNames = absl::flat_hash_set<std::string>;

ListedNames NamesOf(std::span<const ListedModel> models) {
  ListedNames names;
  for (const ListedModel& listed : models) names.insert(listed.name);
  return names;
}

// Every name that Ollama lists has a tag, and clients add this one to a name before they look it up in the list. Where
// another model has the name with the tag, the one without it keeps its own: requests tell both apart so.
std::string TaggedName(const std::string& name, const ListedNames& names) {
  if (name.find(':') != name.npos) return name;
  std::string tagged = absl::StrCat(name, ":latest");
  return names.contains(tagged) ? name : tagged;
}

Json ModelOf(const ListedModel& listed, const ListedNames& names) {
  const std::string name = TaggedName(listed.name, names);
  return {{"name", name},
          {"model", name},
          {"size", WeightBytes(listed)},
          {"digest", DigestOfName(listed.name)},
          {"details", DetailsOfModel(listed)}};
}

std::string LoadedTime(const ListedModel& listed) {
  return TimeText(listed.model == nullptr ? absl::UnixEpoch() : listed.model->loaded);
}

std::string Text(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Members whose names begin with the architecture's, as in a GGUF file.
Json ModelInfoOf(const ListedModel& listed) {
  const bool loaded = listed.model != nullptr;
  const std::string family = loaded ? listed.model->model->config().architecture : "unknown";
  Json info = {{"general.architecture", family}, {"general.basename", listed.name}};
  info[absl::StrCat(family, ".context_length")] = listed.max_context_tokens;
  if (!loaded) return info;
  const engine::Model& model = *listed.model->model;
  info["general.parameter_count"] = model.num_parameters();
  info[absl::StrCat(family, ".block_count")] = model.config().num_layers;
  info[absl::StrCat(family, ".embedding_length")] = model.config().hidden_dim;
  info[absl::StrCat(family, ".vocab_size")] = model.config().vocab_size;
  return info;
}

}  // namespace

std::string TagsDocument(std::span<const ListedModel> models) {
  Json list = Json::array();
  const ListedNames names = NamesOf(models);
  for (const ListedModel& listed : models) {
    Json model = ModelOf(listed, names);
    model["modified_at"] = LoadedTime(listed);
    model["capabilities"] = CapabilitiesOf(listed);
    list.push_back(std::move(model));
  }
  return Text({{"models", std::move(list)}});
}

std::string PsDocument(std::span<const ListedModel> models) {
  Json list = Json::array();
  const ListedNames names = NamesOf(models);
  for (const ListedModel& listed : models) {
    if (listed.model == nullptr) continue;
    Json model = ModelOf(listed, names);
    const bool cpu = listed.model->model->device()->ops->kind == kernels::DeviceKind::kCpu;
    model["expires_at"] = listed.unloads_at == absl::InfiniteFuture() ? kNever : TimeText(listed.unloads_at);
    model["size_vram"] = cpu ? 0 : WeightBytes(listed);
    model["context_length"] = listed.max_context_tokens;
    list.push_back(std::move(model));
  }
  return Text({{"models", std::move(list)}});
}

std::string ShowDocument(const ListedModel& listed) {
  return Text({{"details", DetailsOfModel(listed)},
               {"model_info", ModelInfoOf(listed)},
               {"capabilities", CapabilitiesOf(listed)},
               {"modified_at", LoadedTime(listed)}});
}

}  // namespace dunlin::server::ollama
