// SPDX-License-Identifier: Apache-2.0
// What Ollama's clients are told of models: GET /api/tags and /api/ps, POST /api/show. Pure functions, any thread.
#pragma once

#include <span>
#include <string>

#include "server/serving/resolve/model_list.h"

namespace dunlin::server::ollama {

// {"models":[...]}: those that requests may name, and of ps those in memory.
std::string TagsDocument(std::span<const ListedModel> models);
std::string PsDocument(std::span<const ListedModel> models);
// "details", "capabilities" and "model_info" of one.
std::string ShowDocument(const ListedModel& model);

}  // namespace dunlin::server::ollama
