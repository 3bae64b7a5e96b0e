// SPDX-License-Identifier: Apache-2.0
// Who makes a gRPC call, by the key in its metadata. Any thread.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"

namespace dunlin::server {

// Every method of every service calls this before it reads its message. method: "/package.Service/Method". The key
// stands in one "authorization: Bearer KEY". Errors: as Authorize.
absl::StatusOr<Principal> CallerOf(const AccessControl& access, const char* method,
                                   const grpc::CallbackServerContext& context);

// "/package.Service/Method" of every method of these services, which are linked into the program.
std::vector<std::string> MethodsOf(const std::vector<std::string>& services);

// INTERNAL, naming the first method of these services that has no row in the endpoint table.
absl::Status CheckEndpointsListed(const std::vector<std::string>& services);

}  // namespace dunlin::server
