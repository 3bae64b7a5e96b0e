// Dunlin's own protocol: GenerationService.Generate through gRPC's callback API, over a few connections.
// Tokens are counted from the messages: one message may carry several.
#pragma once

#include <memory>
#include <string>

#include "server/load/client.h"

namespace dunlin::server::load {

// address: "host:port". expected_requests: how many may run at once; sets the number of connections where
// options.num_channels does not, because a server bounds the streams of one connection.
std::unique_ptr<LoadClient> MakeGrpcClient(const std::string& address, const RequestOptions& options,
                                           int64_t expected_requests);

}  // namespace dunlin::server::load
