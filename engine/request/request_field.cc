// SPDX-License-Identifier: Apache-2.0
#include "engine/request/request_field.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

std::string NameOf(const Violation& violation, FieldNameList names) {
  std::string name;
  size_t next = 0;
  for (const char* c = names[violation.field.id()]; *c != '\0'; ++c) {
    if (*c == '*' && next < violation.index.size()) {
      absl::StrAppend(&name, violation.index[next++]);
    } else {
      name.push_back(*c);
    }
  }
  return name;
}

std::string Describe(const Violation& violation, FieldNameList names) {
  std::string problem = violation.problem;
  const size_t other = violation.other.has_value() ? problem.find('*') : std::string::npos;
  if (other != std::string::npos) problem.replace(other, 1, names[violation.other->id()]);
  const char* limit = violation.limit.empty() ? "" : "; limit is ";
  return absl::StrCat(NameOf(violation, names), " ", problem, limit, violation.limit);
}

}  // namespace dunlin::engine
