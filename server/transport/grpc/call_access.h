// SPDX-License-Identifier: Apache-2.0
// Who makes a gRPC call, by the key in its metadata. Any thread.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server {

// Every method of every service calls this before it reads its message. method: "/package.Service/Method". The key
// stands in one "authorization: Bearer KEY". Errors: as Authorize.
absl::StatusOr<Principal> CallerOf(const AccessControl& access, const EndpointTable& endpoints, const char* method,
                                   const grpc::CallbackServerContext& context);
absl::StatusOr<Principal> CallerOf(const ServingCore& core, const char* method,
                                   const grpc::CallbackServerContext& context);

// The same without a refusal and without a line in the audit log: for what is decided before the call is authorised.
Principal PeekCaller(const ServingCore& core, const char* method, const grpc::CallbackServerContext& context);

// The address in what gRPC calls a peer: "192.0.2.1" of "ipv4:192.0.2.1:4711", "::1" of "ipv6:%5B::1%5D:4711"; another
// peer as it is.
std::string_view AddressOfPeer(std::string_view peer);

// "/package.Service/Method" of every method of these services, which are linked into the program.
std::vector<std::string> MethodsOf(const std::vector<std::string>& services);

// INTERNAL, naming the first method of these services that has no row in the table.
absl::Status CheckEndpointsListed(const std::vector<std::string>& services, const EndpointTable& endpoints);

}  // namespace dunlin::server
