// SPDX-License-Identifier: Apache-2.0
// Precompiled for the libraries that speak gRPC or read command lines.
#pragma once

#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>

#include "cmake/precompiled/engine.h"
