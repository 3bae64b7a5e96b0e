// What a model is asked for must be what it does. Pure, any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/convert/errors.h"
#include "server/served_model.h"

namespace dunlin::server {

// FAILED_PRECONDITION when the model is an encoder.
inline absl::Status CheckGenerates(const ServedModel& model) {
  if (model.engine != nullptr) return absl::OkStatus();
  return MakeError(Reason::kWrongModelKind,
                   absl::StrCat("model is an encoder (", model.model->config().architecture,
                                "): it does not generate; ask EmbeddingService.Embed for its vectors"));
}

// FAILED_PRECONDITION when the model is a decoder.
inline absl::Status CheckEmbeds(const ServedModel& model) {
  if (model.encoder != nullptr) return absl::OkStatus();
  return MakeError(Reason::kWrongModelKind, absl::StrCat("model is a decoder (", model.model->config().architecture,
                                                         "): it has no embeddings; ask GenerationService.Generate"));
}

}  // namespace dunlin::server
