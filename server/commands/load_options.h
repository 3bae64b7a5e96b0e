// The options of `dunlin load`.
#pragma once

#include <CLI/CLI.hpp>

#include "server/load/options.h"

namespace dunlin::server {

void AddLoadOptions(CLI::App* subcommand, load::LoadOptions* options);

}  // namespace dunlin::server
