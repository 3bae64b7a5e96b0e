// SPDX-License-Identifier: Apache-2.0
// The threads and descriptors that a config's server has, as far as the config says: its own, by
// docs/architecture.md, and those that gRPC starts, whose numbers are what gRPC 1.51 was seen to start on 1 to 64
// processors. Pure functions.
#pragma once

#include "server/config/config.h"

namespace dunlin::server {

struct ThreadDemand {
  int process = 0;  // without a model: ports, gRPC, text pool, log
  int models = 0;   // of all models that the start loads

  int total() const { return process + models; }
};

struct HostCpus {
  int machine = 1;  // gRPC goes by these
  int usable = 1;   // kernels::UsableCpus: compute threads where compute.threads is 0
};

ThreadDemand ThreadsOf(const Config& config, const HostCpus& cpus);

// Descriptors that are open at once: ports, event engines, listeners, files, and what each model keeps.
int DescriptorsOf(const Config& config);

}  // namespace dunlin::server
