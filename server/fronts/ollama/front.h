// SPDX-License-Identifier: Apache-2.0
// The row of this front end (server/fronts/table.cc): Ollama's API over HTTP.
#pragma once

#include "server/fronts/front.h"

namespace dunlin::server {

extern const FrontRow kOllamaFront;

}  // namespace dunlin::server
