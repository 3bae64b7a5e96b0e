// SPDX-License-Identifier: Apache-2.0
// System messages at places where the model's template takes none. Pure function, any thread.
#pragma once

#include <vector>

#include "server/models/system_places.h"
#include "text/chat_template.h"

namespace dunlin::server {

// The same chat with system messages only where the template takes them: those before all others become one, if the
// template takes a first one. Any other becomes a part of the user's message before or after it, else a message of the
// user, so that what came before keeps its place in the prefix cache. Texts that meet have an empty line between them.
std::vector<text::ChatMessage> WithSystemMoved(const std::vector<text::ChatMessage>& messages, SystemPlaces places);

}  // namespace dunlin::server
