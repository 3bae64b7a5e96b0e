// SPDX-License-Identifier: Apache-2.0
#include "server/serving/text/prompt_overflow.h"

#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

constexpr char kOverflowKey[] = "dunlin/prompt_overflow";  // the four fields in decimal, separated by spaces

}  // namespace

absl::Status PromptOverflowed(const engine::Violation& violation, const FieldNames& names,
                              const PromptOverflow& overflow) {
  absl::Status status = InvalidField(violation, names);
  status.SetPayload(kOverflowKey, absl::Cord(absl::StrCat(overflow.context_tokens, " ", overflow.max_prompt_tokens, " ",
                                                          overflow.prompt_tokens, " ", overflow.at_least ? 1 : 0)));
  return status;
}

std::optional<PromptOverflow> OverflowOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kOverflowKey);
  if (!payload.has_value()) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(std::string(*payload), ' ');
  PromptOverflow overflow;
  int at_least = 0;
  const bool read = fields.size() == 4 && absl::SimpleAtoi(fields[0], &overflow.context_tokens) &&
                    absl::SimpleAtoi(fields[1], &overflow.max_prompt_tokens) &&
                    absl::SimpleAtoi(fields[2], &overflow.prompt_tokens) && absl::SimpleAtoi(fields[3], &at_least);
  if (!read) return std::nullopt;
  overflow.at_least = at_least != 0;
  return overflow;
}

}  // namespace dunlin::server
