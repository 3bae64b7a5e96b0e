// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/json_object.h"

#include "server/serving/record/errors.h"

namespace dunlin::server::kserve {

absl::StatusOr<Json> ParseObject(std::string_view field, std::string_view text) {
  absl::StatusOr<Json> object = ParseBody(text, field);
  if (ReasonName(object.status()) != Traits(Reason::kMalformedMessage).name) return object;
  return InvalidField(field, "is not a JSON object", "");
}

}  // namespace dunlin::server::kserve
