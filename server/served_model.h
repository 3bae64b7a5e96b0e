// Everything one served model needs, built before READY and const after; services look it up by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/runtime/profiles.h"
#include "engine/text/tokenizer.h"
#include "engine/types.h"

namespace dunlin::server {

struct ServedModel {
  std::string name;
  std::unique_ptr<engine::Model> model;
  std::unique_ptr<engine::Tokenizer> tokenizer;  // null for random weights: token ids only
  std::unique_ptr<engine::ProfileTable> profiles;
  engine::SamplingParams sampling_defaults;  // of generation_config.json
  std::unique_ptr<engine::Engine> engine;    // declared last: stopped before what it uses goes
};

class ModelRegistry {
 public:
  void Add(std::unique_ptr<ServedModel> model) { models_.push_back(std::move(model)); }
  // Null when there is none of that name.
  const ServedModel* Find(std::string_view name) const {
    for (const auto& model : models_) {
      if (model->name == name) return model.get();
    }
    return nullptr;
  }
  const std::vector<std::unique_ptr<ServedModel>>& models() const { return models_; }

 private:
  std::vector<std::unique_ptr<ServedModel>> models_;
};

}  // namespace dunlin::server
