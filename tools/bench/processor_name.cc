// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/processor_name.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace dunlin::tools::bench {
namespace {

struct ArmCore {
  absl::string_view implementer;
  absl::string_view part;
  absl::string_view name;
};

// Source: Linux's part numbers of arm64 cores (MIDR_EL1).
constexpr ArmCore kArmCores[] = {
    {"0x41", "0xd08", "Cortex-A72"},  {"0x41", "0xd0c", "Neoverse N1"}, {"0x41", "0xd40", "Neoverse V1"},
    {"0x41", "0xd49", "Neoverse N2"}, {"0x41", "0xd4f", "Neoverse V2"}, {"0x41", "0xd84", "Neoverse V3"},
    {"0x41", "0xd8e", "Neoverse N3"}, {"0xc0", "0xac3", "Ampere-1"},    {"0xc0", "0xac4", "Ampere-1A"},
};

// What follows "key : " in a line that starts with key; empty where it does not.
absl::string_view ValueOf(absl::string_view line, absl::string_view key) {
  const size_t colon = line.find(':');
  if (!absl::StartsWith(line, key) || colon == absl::string_view::npos) return {};
  return absl::StripAsciiWhitespace(line.substr(colon + 1));
}

std::string ArmCoreName(absl::string_view implementer, absl::string_view part) {
  for (const ArmCore& core : kArmCores) {
    if (core.implementer == implementer && core.part == part) return std::string(core.name);
  }
  return absl::StrCat("ARM implementer ", implementer, " part ", part);
}

}  // namespace

std::string ProcessorName(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  std::string implementer;
  std::vector<std::string> cores;
  for (std::string line; std::getline(file, line);) {
    if (const absl::string_view name = ValueOf(line, "model name"); !name.empty()) return std::string(name);
    if (const absl::string_view value = ValueOf(line, "CPU implementer"); !value.empty())
      implementer = std::string(value);
    const absl::string_view part = ValueOf(line, "CPU part");
    if (part.empty()) continue;
    const std::string name = ArmCoreName(implementer, part);
    if (std::find(cores.begin(), cores.end(), name) == cores.end()) cores.push_back(name);
  }
  return cores.empty() ? "unknown processor" : absl::StrJoin(cores, " and ");
}

}  // namespace dunlin::tools::bench
