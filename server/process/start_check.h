// SPDX-License-Identifier: Apache-2.0
// Whether the system gives this process what a server's libraries cannot do without and do not report: gRPC ends the
// process without descriptors for its event engine, and waits for ever for threads that could not be started.
#pragma once

#include "absl/status/status.h"

namespace dunlin::server {

// Starts so many threads at once and opens so many descriptors, and gives them back. RESOURCE_EXHAUSTED names the
// limit.
absl::Status CheckThreadsAndDescriptors(int threads, int descriptors);

}  // namespace dunlin::server
