// SPDX-License-Identifier: Apache-2.0
// Outputs in every form, and what they are.
#pragma once

#include <string>
#include <vector>

#include "tests/text/chat_output/parsed_output.h"

namespace dunlin::text {

struct Sample {
  const char* name;
  const char* reasoning_form;
  const char* call_form;
  const char* prompt;
  const char* output;
  // What comes out.
  const char* text;
  const char* reasoning;
  std::vector<ParsedCall> calls;
};

const std::vector<Sample>& Samples();

// Of the forms of 2026 (tagged_samples.cc).
std::vector<Sample> SamplesOf2026();
// Of single families (family_samples.cc).
std::vector<Sample> SamplesOfFamilies();

}  // namespace dunlin::text
