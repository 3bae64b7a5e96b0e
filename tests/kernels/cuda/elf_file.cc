// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/elf_file.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace dunlin::kernels::cuda {
namespace {

template <typename T>
T At(const std::string& file, uint64_t offset) {
  T value{};
  if (offset + sizeof(T) <= file.size()) std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

}  // namespace

std::vector<std::string> NeededLibraries(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  std::vector<std::string> needed;
  if (file.compare(0, SELFMAG, ELFMAG) != 0) return needed;
  const auto header = At<Elf64_Ehdr>(file, 0);
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = At<Elf64_Shdr>(file, header.e_shoff + i * header.e_shentsize);
    if (section.sh_type != SHT_DYNAMIC) continue;
    const auto names = At<Elf64_Shdr>(file, header.e_shoff + section.sh_link * header.e_shentsize);
    for (uint64_t at = section.sh_offset; at < section.sh_offset + section.sh_size; at += sizeof(Elf64_Dyn)) {
      const auto entry = At<Elf64_Dyn>(file, at);
      if (entry.d_tag == DT_NEEDED) needed.emplace_back(file.c_str() + names.sh_offset + entry.d_un.d_val);
    }
  }
  return needed;
}

}  // namespace dunlin::kernels::cuda
