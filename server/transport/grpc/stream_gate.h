// SPDX-License-Identifier: Apache-2.0
// Sees every HTTP/2 stream that a client opens before gRPC makes a call of it, and lets gRPC pass over those of a
// connection that is over its budget; sees headers without an end, too, which gRPC would keep as they come. gRPC 1.51
// has no place for this: its interceptors see a call when its turn comes, which is seconds later in a flood, and never
// one that gRPC ends itself. So four functions inside its library are replaced by ones that call them: with the
// linker's --wrap where gRPC is linked from archives, else by their names, which shared libraries resolve to the
// program first.
// rapid_reset_test fails with a gRPC that has them no more. Thread rule: any thread.
#pragma once

#include <memory>

#include "server/transport/grpc/grpc_connection.h"

namespace dunlin::server {

class StreamGate {
 public:
  // From now on the streams of this connection are seen. REQUIRES: before gRPC gets its descriptor.
  static void Watch(std::shared_ptr<GrpcConnection> connection);
  static void Forget(const GrpcConnection& connection);
};

}  // namespace dunlin::server
