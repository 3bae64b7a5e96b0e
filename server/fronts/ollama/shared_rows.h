// SPDX-License-Identifier: Apache-2.0
// The fields that bodies of several routes have. Target: has `request`, a ClientRequest or a ClientEmbedRequest. Const
// data.
#pragma once

#include <string>

#include "server/json/execution_fields.h"
#include "server/json/field_table.h"

namespace dunlin::server::ollama {

// What executes a request: members of the server's own, in the body or, for clients that take nothing else, in options.
template <class Target>
inline constexpr FieldRow<Target> kExecutionRows[] = {
    Honoured<Target>("device", [](const JsonValue& v, Target* t) { ReadDevice(v, &t->request->execution); }),
    Honoured<Target>("attention_backend",
                     [](const JsonValue& v, Target* t) { ReadAttentionBackend(v, &t->request->execution); }),
    Honoured<Target>("precision", [](const JsonValue& v, Target* t) { ReadPrecision(v, &t->request->execution); }),
    Honoured<Target>("allow_fallback",
                     [](const JsonValue& v, Target* t) { t->request->execution.allow_fallback = v.Bool(); }),
};

// Whether a model is to leave the memory with its request: 0 seconds, or a duration of 0 as Go writes it, "0s".
inline bool KeepsNothing(const JsonValue& keep_alive) {
  const auto* text = keep_alive.json().get_ptr<const std::string*>();
  if (text == nullptr) return keep_alive.json() == 0;
  return text->find('0') != std::string::npos && text->find_first_of("123456789") == std::string::npos;
}

template <class Target>
inline constexpr FieldRow<Target> kCallRows[] = {
    Honoured<Target>("model", [](const JsonValue& v, Target* t) { t->request->model = v.Text(); }),
    Honoured<Target>("request_id", [](const JsonValue& v, Target* t) { t->request->request_id = v.Text(); }),
    Honoured<Target>("keep_alive", [](const JsonValue& v, Target* t) { t->request->frees_model = KeepsNothing(v); }),
};

// How Ollama's own runner lays out memory and threads: the server's configuration decides that, and all of a model's
// context is there for every request.
template <class Target>
inline constexpr FieldRow<Target> kRunnerRows[] = {
    Ignored<Target>("num_ctx"),    Ignored<Target>("num_batch"), Ignored<Target>("num_gpu"),
    Ignored<Target>("main_gpu"),   Ignored<Target>("use_mmap"),  Ignored<Target>("use_mlock"),
    Ignored<Target>("num_thread"), Ignored<Target>("numa"),      Ignored<Target>("low_vram"),
    Ignored<Target>("f16_kv"),     Ignored<Target>("num_keep"),  Ignored<Target>("draft_num_predict"),
};

}  // namespace dunlin::server::ollama
