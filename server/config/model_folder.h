// SPDX-License-Identifier: Apache-2.0
// The models of a repository folder, as Triton lays it out: REPOSITORY/MODEL/VERSION, where a version is a number and
// its folder a Hugging Face model directory, or has one GGUF file. The largest number is served, once it has settled:
// nothing in its folder has changed for a time, so that a copy that is still being written is left alone.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dunlin::server {

struct FoundModel {
  std::string name;   // of its folder
  std::string path;   // of the version: the directory, or the GGUF file
  std::string stamp;  // changes with the version and whenever its files do
};

struct FoundModels {
  std::vector<FoundModel> models;     // by name
  std::vector<std::string> left_out;  // paths of models and versions that are not UTF-8
};

// Paths of models by their names.
using ModelPaths = std::map<std::string, std::string>;

// Of a model without a settled version the one in `served` goes on, if it is still there; without `served`, at
// the start, its largest. settle: the time; now: compared with the times at which files changed (ctime). Folders
// without a version are left out, as are names that begin with '.', and versions whose path is not UTF-8. NOT_FOUND if
// the folder cannot be read.
absl::StatusOr<FoundModels> FindModels(const std::string& repository, absl::Duration settle, absl::Time now,
                                       const ModelPaths* served);

// The stamps of all models together, and what is left out; "" if the folder cannot be read.
std::string StampOf(const absl::StatusOr<FoundModels>& found);

// Adds the models of model_repository.path to the document's models: a member of models[] with the name of one, and
// neither path nor weights, gets its path; the others have the defaults of every key. No-op without that key. Returns
// FoundModels::left_out. Errors: INVALID_ARGUMENT naming the key.
absl::StatusOr<std::vector<std::string>> AddRepositoryModels(const ModelPaths* served,
                                                             nlohmann::ordered_json* document);

}  // namespace dunlin::server
