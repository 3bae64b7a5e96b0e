// SPDX-License-Identifier: Apache-2.0
// Templates of the standard library in which test programs spend much of their time, compiled with optimisation. Linked
// first, so that the linker takes these instantiations and not those of the tests' own sources, which have none:
// protobuf's parser of text, for example, calls the members of std::string.
#include <cstdint>
#include <string>
#include <vector>

template class std::basic_string<char>;
template class std::vector<char>;
template class std::vector<uint8_t>;
template class std::vector<int32_t>;
template class std::vector<float>;
template class std::vector<std::string>;
