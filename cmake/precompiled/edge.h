// SPDX-License-Identifier: Apache-2.0
// Precompiled for the libraries that speak gRPC. Not CLI11: its constants would be initialised, hence compiled, in
// every source.
#pragma once

#include <grpcpp/grpcpp.h>

#include "cmake/precompiled/engine.h"
