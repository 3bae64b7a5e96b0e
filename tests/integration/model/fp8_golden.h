// SPDX-License-Identifier: Apache-2.0
// Reads the goldens of tests/golden/fp8; their format stands at the head of make_fp8_goldens.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/request/types.h"
#include "tests/integration/model/golden_file.h"

namespace dunlin::engine {

struct Fp8Golden {
  std::vector<TokenId> tokens;
  std::map<std::string, std::vector<GoldenLogits>> logits;  // by recipe; "fp32" is none
};

// Every checkpoint of tests/golden/fp8, in order of name, and the folder of one.
std::vector<std::string> Fp8GoldenNames();
std::string Fp8GoldenPath(const std::string& name);
Fp8Golden ReadFp8Golden(const std::string& model_path);

}  // namespace dunlin::engine
