// SPDX-License-Identifier: Apache-2.0
// How the client commands report a refused or failed call.
#pragma once

#include <grpcpp/support/status.h>

#include <nlohmann/json.hpp>

namespace dunlin::cli {

// {"error": {"code": "INVALID_ARGUMENT", "message": ..., "details": [...]}}; details are the google.rpc messages of the
// status, each with its type in "@type".
nlohmann::ordered_json ErrorJson(const grpc::Status& status);

// "INVALID_ARGUMENT: message", for a terminal.
std::string ErrorLine(const grpc::Status& status);

}  // namespace dunlin::cli
