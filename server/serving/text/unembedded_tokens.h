// SPDX-License-Identifier: Apache-2.0
// Tokens that a model's tokenizer has and its embedding has not: added ones beyond its rows, such as the image token of
// Gemma 3 1B. They are never drawn, so that they stop and ban nothing; a prompt that has one is refused. Pure
// functions, any thread.
#pragma once

#include "engine/request/field_checks.h"
#include "engine/request/request_field.h"
#include "engine/request/types.h"
#include "server/models/served_model.h"
#include "text/tokenizer.h"

namespace dunlin::server {

// Drops the stop tokens, biases and banned sequences that cannot have an effect.
void DropUnembedded(const ServedModel& model, engine::SamplingParams* sampling, engine::StoppingParams* stopping);

// `violation` says that the token `id` is none of the model's. Names it, if the tokenizer has it; null: there is none.
engine::Violation NameUnembedded(engine::Violation violation, engine::TokenId id, const text::Tokenizer* tokenizer);

// The same of a token that a text has. field, index: where the text stands.
engine::Violation UnembeddedIn(engine::Field field, engine::FieldIndex index, engine::TokenId id,
                               const text::Tokenizer& tokenizer);

}  // namespace dunlin::server
