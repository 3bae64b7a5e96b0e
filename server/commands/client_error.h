// SPDX-License-Identifier: Apache-2.0
// A refused or failed call, as the client commands show it.
#pragma once

#include <grpcpp/support/status.h>

#include <nlohmann/json.hpp>

namespace dunlin::server {

// {"error": {"code": "INVALID_ARGUMENT", "message": ..., "details": [...]}}; details are the google.rpc messages of the
// status, each with its type in "@type".
nlohmann::ordered_json ErrorJson(const grpc::Status& status);

// "INVALID_ARGUMENT: message", for a terminal.
std::string ErrorLine(const grpc::Status& status);

}  // namespace dunlin::server
