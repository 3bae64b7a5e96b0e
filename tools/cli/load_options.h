// SPDX-License-Identifier: Apache-2.0
// The options of `dunlin load`.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/load/options.h"

namespace dunlin::cli {

// The footer of `dunlin load --help`: examples and the definition of each metric.
extern const char kLoadFooter[];

void AddLoadOptions(CLI::App* subcommand, tools::load::LoadOptions* options);

}  // namespace dunlin::cli
