// SPDX-License-Identifier: Apache-2.0
// The row of this front end (server/fronts/table.cc): the status page and playground at / of the HTTP port.
#pragma once

#include "server/fronts/front.h"

namespace dunlin::server {

extern const FrontRow kPageFront;

}  // namespace dunlin::server
