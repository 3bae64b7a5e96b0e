// SPDX-License-Identifier: Apache-2.0
// Which model the service stands for: VllmEngine is the contract of one engine, and its requests name no model.
// Const after construction, any thread.
#pragma once

#include <string>
#include <utility>

#include "server/serving/serving_core.h"

namespace dunlin::server {

class EngineModel {
 public:
  // name: of a served model, a profile may stand behind it (serving/profile_alias.h); "": the first one of the kind
  // that a call needs. core outlives this object.
  EngineModel(const ServingCore* core, std::string name) : core_(core), name_(std::move(name)) {}

  // What Generate, and Embed, pass to the core as the model's name; "" if nothing is served.
  std::string ForGeneration() const { return NameOf(false); }
  std::string ForEmbedding() const { return NameOf(true); }
  // What the service describes: the model that generates, if there is one.
  std::string Described() const {
    const std::string name = ForGeneration();
    return name.empty() ? ForEmbedding() : name;
  }

 private:
  std::string NameOf(bool encoder) const {
    if (!name_.empty()) return name_;
    for (const ModelLease& model : core_->models().List()) {
      if (model->model->config().is_encoder() == encoder) return model->name;
    }
    return {};
  }

  const ServingCore* const core_;
  const std::string name_;
};

}  // namespace dunlin::server
