// SPDX-License-Identifier: Apache-2.0
// The range of an option that is a number; CLI::Range takes NaN for one within any range.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

namespace dunlin::cli {

inline CLI::Validator FiniteRange(double low, double high) {
  const auto is_number = [](std::string& text) {
    return std::isnan(std::strtod(text.c_str(), nullptr)) ? "Value " + text + " is not a number" : std::string();
  };
  return CLI::Validator(is_number, "") & CLI::Range(low, high);
}

}  // namespace dunlin::cli
