// SPDX-License-Identifier: Apache-2.0
// Asks whether a call may be made, before anything of it is read. Thread rule: any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"

namespace dunlin::server {

// The caller of the endpoint (a name of the table) who presents this key, "" for none; anonymous without keys.
// peer: the client's address; asked for only when the server has keys, or the call is refused. Errors, which go to the
// audit log: UNAUTHENTICATED, PERMISSION_DENIED; an endpoint that is not in the table is INTERNAL for everybody.
absl::StatusOr<Principal> Authorize(const AccessControl& access, const EndpointTable& endpoints,
                                    std::string_view endpoint, std::string_view presented,
                                    absl::FunctionRef<std::string()> peer);

}  // namespace dunlin::server
