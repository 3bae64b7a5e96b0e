// SPDX-License-Identifier: Apache-2.0
// The section models[].speculation of a config document.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/status.h"
#include "server/config/config.h"

namespace dunlin::server {

// A section that is given as the value of its key "tokens", a word or a number, becomes an object. One with a draft
// model and no such key is "auto".
void ExpandSpeculation(nlohmann::ordered_json* document);

// Relative paths of draft models are taken from `folder`, unless they are the name of a model of the document.
void AnchorDrafts(const std::filesystem::path& folder, nlohmann::ordered_json* document);

// Sets the draft models of `models`, those of the completed document in its order; "mtp" stands for the layer of the
// checkpoint that predicts further tokens (ModelSource::predictor). INVALID_ARGUMENT for a model that is its own.
absl::Status ReadDrafts(const nlohmann::ordered_json& document, std::vector<ModelSettings>* models);

}  // namespace dunlin::server
