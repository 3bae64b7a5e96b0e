// SPDX-License-Identifier: Apache-2.0
// Dunlin's own protocol: GenerationService.Generate through gRPC's callback API, over a few connections.
// Tokens are counted from the messages: one message may carry several.
#pragma once

#include <memory>
#include <string>

#include "tools/load/client.h"

namespace dunlin::tools::load {

// address: "host:port". expected_requests: how many may be in flight; sets the number of connections unless
// options.num_channels does, because a server limits the streams of a connection. Errors: as OpenChannel.
absl::StatusOr<std::unique_ptr<LoadClient>> MakeGrpcClient(const std::string& address, const RequestOptions& options,
                                                           int64_t expected_requests);

}  // namespace dunlin::tools::load
