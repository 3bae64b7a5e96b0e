// Everything one served model needs, built before READY and const after; services look it up by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/encoder/embedding_settings.h"
#include "engine/encoder/encoder_engine.h"
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
  engine::EmbeddingSettings embedding;       // of an encoder's directory
  // One of the two, by the model's kind. Declared last: stopped before what they use goes.
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<engine::EncoderEngine> encoder;

  engine::ModelEngine* any_engine() const {
    return engine != nullptr ? static_cast<engine::ModelEngine*>(engine.get()) : encoder.get();
  }
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
