// SPDX-License-Identifier: Apache-2.0
// The structured output of a request on its way to become a constraint, while nothing waits but the request.
// Thread rule: one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "server/models/grammar_cache.h"
#include "server/models/served_model.h"
#include "server/serving/record/client_field.h"
#include "text/grammar_source.h"

namespace dunlin::server {

class PendingConstraint {
 public:
  // model outlives the result. caller: GrammarCache::Caller. REQUIRES: CheckStructuredOutput has passed. Errors:
  // FAILED_PRECONDITION (a model without a tokenizer); RESOURCE_EXHAUSTED (too many grammars are being compiled).
  static absl::StatusOr<std::unique_ptr<PendingConstraint>> Start(const ServedModel& model,
                                                                  const text::GrammarSource& source,
                                                                  const FieldNames& names,
                                                                  const GrammarCache::Caller& caller,
                                                                  int32_t retry_after_ms);

  // nullopt: not yet. Errors: INVALID_ARGUMENT with GRAMMAR_INVALID, GRAMMAR_UNSUPPORTED or GRAMMAR_TOO_COMPLEX and the
  // field; FAILED_PRECONDITION (a tokenizer whose tokens have no bytes of their own).
  std::optional<absl::StatusOr<Grammar>> result() const;

 private:
  PendingConstraint(engine::Field field, const FieldNames& names, std::unique_ptr<GrammarCache::Wait> wait)
      : field_(field), names_(names), wait_(std::move(wait)) {}

  const engine::Field field_;
  const FieldNames& names_;
  const std::unique_ptr<GrammarCache::Wait> wait_;
};

}  // namespace dunlin::server
