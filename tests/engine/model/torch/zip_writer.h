// SPDX-License-Identifier: Apache-2.0
// Writes stored zip archives for tests, as torch.save lays them out.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dunlin::engine {

using ZipContents = std::vector<std::pair<std::string, std::string>>;

// method: 0 stored; another value only says so in the directory.
std::string ZipBytes(const ZipContents& contents, uint16_t method = 0);

// An archive of this pickle and one storage "0".
std::string TorchBytes(const std::string& pickle, const std::string& storage);

}  // namespace dunlin::engine
