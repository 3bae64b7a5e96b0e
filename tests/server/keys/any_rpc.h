// SPDX-License-Identifier: Apache-2.0
// A call of any method, known by its name alone.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <vector>

namespace dunlin::server {

struct RpcAnswer {
  grpc::Status status;    // OK if the method answers and goes on
  bool answered = false;  // with a message
  std::string message;    // the first one
};

// Sends one message, by default an empty one, and waits for the first that comes back, or the end; 20 s at most.
// authorization: what stands in metadata of that name, once for each.
RpcAnswer CallAnyRpc(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::vector<std::string>& authorization, const std::string& message = "");

}  // namespace dunlin::server
