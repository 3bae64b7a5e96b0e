// SPDX-License-Identifier: Apache-2.0
// Structured output of a request: bounds of its fields, and the constraint that its outputs run under.
// Thread rule: any thread; CompileStructuredOutput for text pool threads only, as it may take seconds.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "engine/request_field.h"
#include "engine/text/grammar_source.h"
#include "server/models/grammar_cache.h"
#include "server/models/served_model.h"

namespace dunlin::server {

// The first violation of a bound, or none; grammar.h has the bounds.
std::optional<engine::Violation> CheckStructuredOutput(const engine::GrammarSource& source);

// REQUIRES: CheckStructuredOutput has passed. Errors: FAILED_PRECONDITION (a model without a tokenizer, or one whose
// tokens have no bytes of their own); INVALID_ARGUMENT with GRAMMAR_INVALID, GRAMMAR_UNSUPPORTED or GRAMMAR_TOO_COMPLEX
// and the field.
absl::StatusOr<GrammarCache::Constraint> CompileStructuredOutput(const ServedModel& model,
                                                                 const engine::GrammarSource& source,
                                                                 const engine::FieldNames& names);

}  // namespace dunlin::server
