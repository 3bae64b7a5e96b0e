// SPDX-License-Identifier: Apache-2.0
// The row of this front end (server/fronts/table.cc): the APIs of OpenAI and Anthropic over HTTP.
#pragma once

#include "server/fronts/front.h"

namespace dunlin::server {

extern const FrontRow kOpenAiFront;

}  // namespace dunlin::server
