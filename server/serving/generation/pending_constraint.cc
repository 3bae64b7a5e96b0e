// SPDX-License-Identifier: Apache-2.0
#include "server/serving/generation/pending_constraint.h"

#include "absl/strings/str_cat.h"
#include "server/serving/generation/check_structured_output.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {

absl::StatusOr<std::unique_ptr<PendingConstraint>> PendingConstraint::Start(const ServedModel& model,
                                                                            const text::GrammarSource& source,
                                                                            const FieldNames& names,
                                                                            const GrammarCache::Caller& caller,
                                                                            int32_t retry_after_ms) {
  if (model.grammars == nullptr) {
    return MakeError(Reason::kNoTokenizer, "the model has no tokenizer; structured output needs one");
  }
  std::unique_ptr<GrammarCache::Wait> wait = model.grammars->Find(source, caller);
  if (wait == nullptr) {
    return Overloaded(Reason::kQueueFull,
                      absl::StrCat("too many grammars wait to be compiled; limit is ", GrammarLane::kMaxJobs, " and ",
                                   GrammarLane::kMaxJobsPerTenant, " of one caller"),
                      "", retry_after_ms);
  }
  return std::unique_ptr<PendingConstraint>(
      new PendingConstraint(FieldOfStructuredOutput(source), names, std::move(wait)));
}

std::optional<absl::StatusOr<Grammar>> PendingConstraint::result() const {
  std::optional<absl::StatusOr<Grammar>> result = wait_->result();
  if (result.has_value() && !result->ok()) return GrammarRefused(result->status(), field_, names_);
  return result;
}

}  // namespace dunlin::server
