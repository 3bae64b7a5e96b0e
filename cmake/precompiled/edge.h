// SPDX-License-Identifier: Apache-2.0
// Precompiled for the libraries that speak gRPC or read command lines.
#pragma once

#include <CLI/CLI.hpp>
#include <grpcpp/grpcpp.h>

#include "cmake/precompiled/engine.h"
