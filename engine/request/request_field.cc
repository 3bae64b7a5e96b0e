// SPDX-License-Identifier: Apache-2.0
#include "engine/request/request_field.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

// The plain names are listed in the order of the enumerators, and none is missing.
static_assert(kPlainFieldNames[RequestField::kTopP][0] == 't' && kPlainFieldNames[RequestField::kTopP][4] == 'p');
static_assert(kPlainFieldNames[RequestField::kMaxTokens][1] == 'a');
static_assert(kPlainFieldNames[RequestField::kDimensions][0] == 'd');
static_assert(kPlainFieldNames[RequestField::kTopN][4] == 'n');
static_assert(kPlainFieldNames[RequestField::kChatParseSpecialTokens] != nullptr);

std::string NameOf(const Violation& violation, const FieldNames& names) {
  std::string name;
  size_t next = 0;
  for (const char* c = names[violation.field]; *c != '\0'; ++c) {
    if (*c == '*' && next < violation.index.size()) {
      absl::StrAppend(&name, violation.index[next++]);
    } else {
      name.push_back(*c);
    }
  }
  return name;
}

std::string Describe(const Violation& violation, const FieldNames& names) {
  std::string problem = violation.problem;
  const size_t other = violation.other.has_value() ? problem.find('*') : std::string::npos;
  if (other != std::string::npos) problem.replace(other, 1, names[*violation.other]);
  const char* limit = violation.limit.empty() ? "" : "; limit is ";
  return absl::StrCat(NameOf(violation, names), " ", problem, limit, violation.limit);
}

}  // namespace dunlin::engine
