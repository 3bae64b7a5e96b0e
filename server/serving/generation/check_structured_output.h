// SPDX-License-Identifier: Apache-2.0
// Structured output of a request: bounds of its fields. pending_constraint.h makes the constraint.
// Thread rule: any thread.
#pragma once

#include <optional>

#include "server/serving/record/client_field.h"
#include "text/grammar_source.h"

namespace dunlin::server {

// The first violation of a bound, or none; grammar.h has the bounds.
std::optional<engine::Violation> CheckStructuredOutput(const text::GrammarSource& source);

// What the client has set of a grammar, for errors: tools are parts that say so.
ClientField FieldOfStructuredOutput(const text::GrammarSource& source);

}  // namespace dunlin::server
