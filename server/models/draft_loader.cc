// SPDX-License-Identifier: Apache-2.0
#include "server/models/draft_loader.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/draft_model/draft_model.h"
#include "engine/model/load/load_model.h"
#include "engine/model/load/opened_model.h"
#include "server/models/text_loader.h"

namespace dunlin::server {
namespace {

absl::Status OfDraft(const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("models[].speculation.draft: ", status.message()));
}

std::string ShownToken(const absl::StatusOr<std::string>& token) {
  return token.ok() ? absl::StrCat("\"", *token, "\"") : "none";
}

// Without a tokenizer in one of them only the sizes can be compared.
absl::Status CheckVocabulary(const ServedModel& served, const text::Tokenizer* draft, int32_t draft_vocab_size) {
  if (served.tokenizer != nullptr && draft != nullptr) return CheckSameVocabulary(*served.tokenizer, *draft);
  const int32_t vocab_size = served.model->config().vocab_size;
  if (vocab_size == draft_vocab_size) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("its vocabulary has ", draft_vocab_size, " tokens, the model's ", vocab_size));
}

}  // namespace

absl::Status CheckSameVocabulary(const text::Tokenizer& model, const text::Tokenizer& draft) {
  const int64_t count = std::max(model.vocab_size(), draft.vocab_size());
  for (int64_t id = 0; id < count; ++id) {
    const absl::StatusOr<std::string> mine = model.TokenText(static_cast<engine::TokenId>(id));
    const absl::StatusOr<std::string> other = draft.TokenText(static_cast<engine::TokenId>(id));
    if (mine.ok() == other.ok() && (!mine.ok() || *mine == *other)) continue;
    return absl::FailedPreconditionError(absl::StrCat("it has another vocabulary: token ", id, " is ",
                                                      ShownToken(other), ", the model's is ", ShownToken(mine)));
  }
  return absl::OkStatus();
}

engine::EngineOptions DraftOptions(const ModelSettings& settings) {
  engine::EngineOptions options = settings.engine;
  options.max_sequences = settings.draft.max_sequences;
  return engine::DraftModel::RuntimeOptions(options);
}

absl::StatusOr<std::unique_ptr<engine::BatchDrafter>> LoadDraftModel(const ModelSettings& settings,
                                                                     kernels::Device* device, ServedModel* served,
                                                                     const std::atomic<bool>& stop) {
  const engine::ModelSource& source = settings.draft.source;
  const absl::StatusOr<engine::OpenedModel> opened = engine::OpenModelSource(source, true);
  if (!opened.ok()) return OfDraft(opened.status());
  const engine::ModelConfig& config = opened->parsed.config;
  TextLoader text_loader(source.path, config.vocab_size);
  const absl::StatusOr<ModelText> text = text_loader.Take();
  if (!text.ok()) return OfDraft(text.status());
  const absl::Status same = CheckVocabulary(*served, text->tokenizer.get(), config.vocab_size);
  if (!same.ok()) return OfDraft(same);
  auto model = engine::LoadOpenedModel(*opened, source, {device}, &stop);
  if (!model.ok()) return OfDraft(model.status());
  served->draft_model = *std::move(model);
  engine::EngineOptions options = DraftOptions(settings);
  options.kv_memory_bytes = settings.draft.kv_memory_bytes;
  auto drafter = engine::DraftModel::Create(served->draft_model.get(), options, served->model->config().vocab_size);
  if (!drafter.ok()) return OfDraft(drafter.status());
  spdlog::info("model \"{}\": {} with {} parameters guesses for {} requests at once, {} KV pages", settings.name,
               config.architecture, served->draft_model->num_parameters(), (*drafter)->max_sequences(),
               (*drafter)->memory_plan().num_pages);
  return *std::move(drafter);
}

}  // namespace dunlin::server
