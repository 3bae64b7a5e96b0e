// SPDX-License-Identifier: Apache-2.0
// Reads what a client of the protocol sends as JSON: the bodies of HTTP, and sampling_parameters. Pure function, any
// thread.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/json/json_value.h"

namespace dunlin::server::kserve {

// Within the bounds of ParseBody. Errors: INVALID_FIELD of `field` (not a JSON object), or of the member at fault; the
// text is never quoted.
absl::StatusOr<Json> ParseObject(std::string_view field, std::string_view text);

}  // namespace dunlin::server::kserve
