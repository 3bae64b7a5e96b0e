// SPDX-License-Identifier: Apache-2.0
#include "server/json/field_table.h"

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::server {

void RefuseField(const JsonValue& value, std::string_view reason, std::string_view neutral) {
  if (!neutral.empty() && value.json() == Json::parse(neutral)) return;
  const char* problem = neutral.empty() ? "is not supported: " : "has a value that is not supported: ";
  value.Fail(absl::StrCat(problem, engine::AbslView(reason)), neutral);
}

}  // namespace dunlin::server
