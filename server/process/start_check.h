// SPDX-License-Identifier: Apache-2.0
// Whether the system gives this process what gRPC cannot do without and does not report: it ends the process without
// descriptors for its event engine, and waits for ever for threads that could not be started.
#pragma once

#include "absl/status/status.h"

namespace dunlin::server {

// Starts so many threads at once and opens so many descriptors, and gives them back. RESOURCE_EXHAUSTED names the
// limit.
absl::Status CheckThreadsAndDescriptors(int threads, int descriptors);

// The threads that gRPC starts in any process, on a machine with so many processors: as 1.51 was seen to do on 1 to 64.
int GrpcThreads(int num_cpus);

// CheckThreadsAndDescriptors with what gRPC needs in a client.
absl::Status CheckClient();

}  // namespace dunlin::server
