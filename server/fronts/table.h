// SPDX-License-Identifier: Apache-2.0
// The front ends of the server, one row each. Const data, any thread.
#pragma once

#include <span>

#include "server/fronts/front.h"

namespace dunlin::server {

// In the order in which they are registered with the ports.
std::span<const FrontRow* const> Fronts();

}  // namespace dunlin::server
