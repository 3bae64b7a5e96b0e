// SPDX-License-Identifier: Apache-2.0
// Checks a JSON document against the key table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace dunlin::server {

// Checks every key of `document` (unknown, wrong type, out of range, missing) and fills in defaults. The first error
// is INVALID_ARGUMENT: "limits.max_message_bytes is 5; limit is [1024, 268435456]".
absl::Status CheckAndComplete(nlohmann::ordered_json* document);

// Applies one "a.0.b=value" to the document; value is parsed as JSON, or taken as a string if that fails.
absl::Status ApplyOverride(const std::string& assignment, nlohmann::ordered_json* document);

// What keeps unauthorised clients off the ports.
struct Protection {
  bool has_tls = false;
  bool has_keys = false;
  bool behind_proxy = false;  // a proxy in front of the server does
};

// Refuses an address that other machines can reach while TLS or keys are missing and no proxy has their part.
// key: "listen.grpc"; address: its value. Errors: INVALID_ARGUMENT saying what is missing and which keys change that.
absl::Status CheckExposure(const char* key, const std::string& address, const Protection& protection);

// configs/schema.json: the table as a JSON Schema (draft 2020-12).
nlohmann::ordered_json ConfigSchema();

}  // namespace dunlin::server
