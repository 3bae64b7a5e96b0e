// SPDX-License-Identifier: Apache-2.0
// Which model the service stands for: VllmEngine is the contract of one engine, and its requests name no model. A
// caller whose key may not use that model gets "", as where there is none: an error then names none either. Const after
// construction, any thread.
#pragma once

#include <string>
#include <utility>

#include "server/serving/core/serving_core.h"
#include "server/serving/resolve/key_limits.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server {

class EngineModel {
 public:
  // name: of a served model or an adapter, a profile may follow it (serving/resolve/profile_alias.h); "": of those that
  // the caller may use, the first model of the kind that a call needs. core outlives this object.
  EngineModel(const ServingCore* core, std::string name) : core_(core), name_(std::move(name)) {}

  // What Generate, and Embed, pass to the core as the model's name.
  std::string ForGeneration(const Principal& caller) const { return NameOf(caller, false); }
  std::string ForEmbedding(const Principal& caller) const { return NameOf(caller, true); }
  // What the service describes: the model that generates, if there is one.
  std::string Described(const Principal& caller) const {
    const std::string name = ForGeneration(caller);
    return name.empty() ? ForEmbedding(caller) : name;
  }

 private:
  std::string NameOf(const Principal& caller, bool encoder) const {
    if (!name_.empty()) {
      const NamedModel named = FindNamed(*core_, name_);
      return named.model == nullptr || caller.MayUse(named.name) ? name_ : std::string();
    }
    for (const ModelLease& model : ModelsFor(*core_, caller)) {
      if (model->model->config().is_encoder() == encoder) return model->name;
    }
    return {};
  }

  const ServingCore* const core_;
  const std::string name_;
};

}  // namespace dunlin::server
