// SPDX-License-Identifier: Apache-2.0
// The processor's name in records of `dunlin bench`.
#pragma once

#include <string>

namespace dunlin::tools::bench {

// Of <root>/proc/cpuinfo; root: "" for the real system. ARM's kernel gives two numbers in place of a name, for each
// core: those of cores that servers have become names ("Neoverse V2"), others "ARM implementer 0x61 part 0x022"; of
// cores of several kinds each is named once. "unknown processor" where there is nothing.
std::string ProcessorName(const std::string& root = "");

}  // namespace dunlin::tools::bench
