// SPDX-License-Identifier: Apache-2.0
// The options of a client command that choose the profile of its request.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "dunlin/v1/execution.pb.h"

namespace dunlin::cli {

struct ExecutionWords {
  std::string attention_backend = "auto";
  std::string precision = "auto";
  std::string device = "auto";
  bool allow_fallback = false;
  std::string speculation;  // empty: the model's default
};

// The choices of --attention-backend and --precision, "auto" first.
std::vector<std::string> BackendWords();
std::vector<std::string> PrecisionWords();

// --attention-backend, --precision, --device, --allow-fallback.
void AddExecutionOptions(CLI::App* subcommand, ExecutionWords* words);
// --speculation, of commands that generate.
void AddSpeculationOption(CLI::App* subcommand, ExecutionWords* words);

// REQUIRES: the words are among the options' choices.
v1::ExecutionOptions ExecutionNamed(const ExecutionWords& words);

}  // namespace dunlin::cli
