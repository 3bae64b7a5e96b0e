// SPDX-License-Identifier: Apache-2.0
// The row of this front end (server/fronts/table.cc): our own gRPC API.
#pragma once

#include "server/fronts/front.h"

namespace dunlin::server {

extern const FrontRow kDunlinV1Front;

}  // namespace dunlin::server
