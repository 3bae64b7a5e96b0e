// SPDX-License-Identifier: Apache-2.0
// Everything needed to serve one model. Built by the loader, constant once it is in the repository.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/adapters/adapter_set.h"
#include "engine/encoder/embedding_settings.h"
#include "engine/encoder/encoder_engine.h"
#include "engine/loop/engine.h"
#include "engine/model/model.h"
#include "engine/request/types.h"
#include "engine/runtime/profiles.h"
#include "server/models/adapter_uses.h"
#include "server/models/grammar_cache.h"
#include "server/models/image_input.h"
#include "server/models/model_state.h"
#include "server/models/system_places.h"
#include "text/chat_output/chat_output_parser.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dunlin::server {

struct ModelMemory;

struct ServedModel {
  // What the memory plan counts of it, as long as it takes memory: declared first, so that it is destroyed last. May be
  // null.
  std::shared_ptr<const ModelMemory> memory;
  std::string name;
  std::string directory;  // of the model, absolute; "" for random weights
  engine::EngineOptions engine_options;
  absl::Time loaded = absl::Now();  // when loading began
  std::unique_ptr<engine::Model> model;
  std::unique_ptr<engine::Model> draft_model;    // models[].speculation.draft; null: there is none
  std::unique_ptr<engine::AdapterSet> adapters;  // null: the model takes none (models[].max_adapters)
  std::unique_ptr<AdapterUses> adapter_uses = std::make_unique<AdapterUses>();
  std::unique_ptr<text::Tokenizer> tokenizer;         // null for random weights: token ids only
  std::unique_ptr<GrammarCache> grammars;             // null without a tokenizer and for an encoder
  std::unique_ptr<text::ChatTemplate> chat_template;  // null: chats are refused, and chat_refusal says why
  std::string chat_refusal = "it has no chat template; set models[].chat_template, or send text";
  bool chat_special_tokens = false;                      // requests may let special tokens in their messages be parsed
  SystemPlaces system_places = SystemPlaces::kAnywhere;  // of the chat template
  text::ChatOutputForms chat_forms;                      // how the model writes reasoning and tool calls
  std::unique_ptr<ImageInput> images;  // null: chats with images are refused, and image_refusal says why
  std::string image_refusal = "it is a model of text alone";
  std::unique_ptr<engine::ProfileTable> profiles;
  engine::SamplingParams sampling_defaults;             // from generation_config.json
  bool names_temperature = false;                       // that file does
  std::optional<int32_t> default_max_tokens;            // the same file's max_new_tokens
  engine::EmbeddingSettings embedding;                  // from the directory of an encoder
  std::optional<text::PairFrame> pair_frame;            // of the tokenizer of a sequence classifier, where it has one
  std::shared_ptr<engine::StepObserver> step_observer;  // of the engine; may be null
  // Exactly one is set, by the model's kind; none of a simulated model. Declared last, so that the engine stops before
  // what it uses is destroyed.
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<engine::EncoderEngine> encoder;

  bool sees_images() const { return images != nullptr; }
  // That of its image encoder; null without one.
  engine::ModelEngine* image_engine() const { return sees_images() ? images->encoder.get() : nullptr; }
  engine::ModelEngine* any_engine() const {
    return engine != nullptr ? static_cast<engine::ModelEngine*>(engine.get()) : encoder.get();
  }
};

// By name.
inline std::vector<AdapterStatus> LoadedAdapters(const ServedModel& model) {
  std::vector<AdapterStatus> list;
  if (model.adapters == nullptr) return list;
  for (const engine::AdapterInfo& info : model.adapters->List()) {
    list.push_back({info.name, info.path, true, info.id, info.rank, info.bytes, "", info.resident});
  }
  return list;
}

}  // namespace dunlin::server
