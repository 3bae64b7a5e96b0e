// SPDX-License-Identifier: Apache-2.0
// The draft model of a served one (models[].speculation.draft): what it takes, and loading it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/options.h"
#include "engine/speculation/batch_drafter.h"
#include "kernels/api/device.h"
#include "server/config/config.h"
#include "server/models/served_model.h"
#include "text/tokenizer.h"

namespace dunlin::server {

// Every id is the same token in both. FAILED_PRECONDITION with the first difference.
absl::Status CheckSameVocabulary(const text::Tokenizer& model, const text::Tokenizer& draft);

// Loads settings.draft, which is given, into served->draft_model, and makes what runs it. served has its model and its
// tokenizer. Errors: as engine::LoadModel and DraftModel::Create; FAILED_PRECONDITION for another vocabulary. Messages
// begin with the config key.
absl::StatusOr<std::unique_ptr<engine::BatchDrafter>> LoadDraftModel(const ModelSettings& settings,
                                                                     kernels::Device* device, ServedModel* served,
                                                                     const std::atomic<bool>& stop);

// The options of a draft model's runtime, but for its KV memory.
engine::EngineOptions DraftOptions(const ModelSettings& settings);

}  // namespace dunlin::server
