// SPDX-License-Identifier: Apache-2.0
// The row of this front end (server/fronts/table.cc): vllm.grpc.engine.VllmEngine.
#pragma once

#include "server/fronts/front.h"

namespace dunlin::server {

extern const FrontRow kSmgWorkerFront;

}  // namespace dunlin::server
