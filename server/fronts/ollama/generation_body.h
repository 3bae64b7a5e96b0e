// SPDX-License-Identifier: Apache-2.0
// Bodies of POST /api/chat and /api/generate -> ClientRequest. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/json/field_table.h"
#include "server/json/json_value.h"
#include "server/serving/record/client_request.h"
#include "text/chat_template.h"

namespace dunlin::server::ollama {

enum class GenerationApi : uint8_t { kChat, kGenerate };

// What the response depends on besides the ClientRequest, and what is put together from several fields.
struct GenerationBody {
  ClientRequest* request;
  bool strict = false;                      // members and tools without effect are errors
  text::ChatInput chat = {};                // of chat
  std::string prompt = {};                  // of generate, as the next three
  std::string system = {};                  // "": none
  std::vector<text::ChatPart> images = {};  // before the prompt
  bool raw = false;                         // the prompt is taken as it is
  Json template_options = Json::object();   // variables of the chat template
  bool stream = true;
  bool logprobs = false;
  std::optional<int32_t> top_logprobs = {};
};

// The tables of a route: its own fields, those of both, and what executes.
std::span<const FieldTable<GenerationBody>> FieldsOf(GenerationApi api);
// The members of "options": Ollama's, and what executes.
std::span<const FieldTable<GenerationBody>> OptionFields();

// Without messages, or without a prompt, the request is one that loads its model alone. Errors: as ParseBody, and the
// first of any field. *body holds what could be read even after an error.
absl::Status ReadGenerationBody(GenerationApi api, std::string_view text, GenerationBody* body);

}  // namespace dunlin::server::ollama
