// SPDX-License-Identifier: Apache-2.0
// The row of this front end (server/fronts/table.cc): the Open Inference Protocol on both ports.
#pragma once

#include "server/fronts/front.h"

namespace dunlin::server {

extern const FrontRow kKserveFront;

}  // namespace dunlin::server
