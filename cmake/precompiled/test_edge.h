// SPDX-License-Identifier: Apache-2.0
// Precompiled for the test programs that start an Edge and call it through gRPC.
#pragma once

#include "cmake/precompiled/test.h"
#include "dunlin/v1/generation.grpc.pb.h"
#include "server/edge/edge.h"
