// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/field_table.h"

#include <string>

namespace dunlin::server {

void RefuseField(const JsonValue& value, std::string_view neutral) {
  if (neutral.empty()) return value.Fail("is not supported", "");
  if (value.json() != Json::parse(neutral)) value.Fail("has a value that is not supported", neutral);
}

}  // namespace dunlin::server
