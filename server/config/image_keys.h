// SPDX-License-Identifier: Apache-2.0
// The keys of what a model takes of images, rows of the key table; config.cc reads them.
#pragma once

#include <cstdint>

#include "server/config/key_table.h"

namespace dunlin::server {

inline constexpr ConfigKey kImageKeys[] = {
    {"models[].images.max_images", KeyType::kInteger, "16", 0, 256, nullptr,
     "Images that a request may have, of a model that sees them; 0: none, and its image encoder is not loaded"},
    {"models[].images.longest_edge", KeyType::kInteger, "0", 0, 16384, nullptr,
     "Pixels of the edge that images are scaled down to: fewer make fewer tokens; 0: as the model's files say, up to "
     "2048"},
    {"models[].images.max_pixels", KeyType::kInteger, "16777216", 1024, int64_t{1} << 30, nullptr,
     "Pixels of an image as it comes; a larger one is refused before it is decoded"},
    {"models[].images.memory_bytes", KeyType::kInteger, "268435456", 1 << 20, int64_t{1} << 40, nullptr,
     "Memory for what images become: of requests in progress, which wait for it, and in the rest of recent images"},
};

}  // namespace dunlin::server
