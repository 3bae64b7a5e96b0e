// SPDX-License-Identifier: Apache-2.0
// Chat -> text::ChatInput. A pure function, any thread.
#pragma once

#include "dunlin/v1/generation.pb.h"
#include "text/chat_template.h"

namespace dunlin::server {

// Moves the strings out of *wire. Bounds are the core's.
text::ChatInput ChatFromWire(v1::Chat* wire);

}  // namespace dunlin::server
