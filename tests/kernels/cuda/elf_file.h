// SPDX-License-Identifier: Apache-2.0
// The dynamic section of an ELF file, as far as the tests need it.
#pragma once

#include <string>
#include <vector>

namespace dunlin::kernels::cuda {

// The libraries that a program or shared library is linked with (DT_NEEDED), in file order; empty when it is not a
// 64-bit ELF file with a dynamic section.
std::vector<std::string> NeededLibraries(const std::string& path);

}  // namespace dunlin::kernels::cuda
