// SPDX-License-Identifier: Apache-2.0
#include "server/config/speculation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPredictingLayer = "mtp";  // in place of a draft model

// Calls use(speculation) for each model that has the section.
template <typename Use>
void ForEachSection(Json* document, const Use& use) {
  if (!document->is_object() || !document->contains("models") || !(*document)["models"].is_array()) return;
  for (Json& model : (*document)["models"]) {
    if (model.is_object() && model.contains("speculation")) use(&model["speculation"]);
  }
}

}  // namespace

void ExpandSpeculation(Json* document) {
  ForEachSection(document, [](Json* section) {
    if (section->is_string() || section->is_number_unsigned()) {
      const std::string tokens = section->is_string() ? section->get<std::string>() : section->dump();
      *section = Json::object();
      (*section)["tokens"] = tokens;
    } else if (section->is_object() && section->contains("draft") && !section->contains("tokens")) {
      const Json& draft = (*section)["draft"];
      if (!draft.is_string() || !draft.get_ref<const std::string&>().empty()) (*section)["tokens"] = "auto";
    }
  });
}

void AnchorDrafts(const std::filesystem::path& folder, Json* document) {
  ForEachSection(document, [&](Json* section) {
    if (!section->is_object() || !section->contains("draft") || !(*section)["draft"].is_string()) return;
    const auto draft = (*section)["draft"].get<std::string>();
    const Json& models = (*document)["models"];
    const bool is_name = std::any_of(models.begin(), models.end(), [&draft](const Json& model) {
      return model.is_object() && model.contains("name") && model["name"] == draft;
    });
    if (draft.empty() || draft == kPredictingLayer || is_name || std::filesystem::path(draft).is_absolute()) return;
    (*section)["draft"] = (folder / draft).lexically_normal().string();
  });
}

absl::Status ReadDrafts(const Json& document, std::vector<ModelSettings>* models) {
  for (size_t i = 0; i < models->size(); ++i) {
    ModelSettings& settings = (*models)[i];
    const Json& section = document.at("models")[i].at("speculation");
    const auto draft = section.at("draft").get<std::string>();
    if (draft.empty()) continue;
    if (draft == kPredictingLayer) {
      settings.source.predictor = true;
      continue;
    }
    if (draft == settings.name) {
      return absl::InvalidArgumentError(absl::StrCat("models[", i, "].speculation.draft is \"", draft,
                                                     "\", the model itself; limit is a path, or another model's name"));
    }
    const auto named = std::find_if(models->begin(), models->end(),
                                    [&draft](const ModelSettings& other) { return other.name == draft; });
    if (named == models->end()) {
      settings.draft.source.path = draft;
    } else {
      settings.draft.source = named->source;
      settings.draft.source.num_ranks = 1;
      settings.draft.source.predictor = false;
      if (named->source.precisions.size() > 1) settings.draft.source.precisions.resize(1);
    }
    settings.draft.max_sequences = section.at("draft_sequences").get<int32_t>();
  }
  return absl::OkStatus();
}

}  // namespace dunlin::server
