// SPDX-License-Identifier: Apache-2.0
// The machine code of libdunlin_cuda.so, as cuobjdump shows it.
#pragma once

#include <cstdio>
#include <initializer_list>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace dunlin::kernels::cuda {

inline std::string OutputOf(const std::string& command) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char part[4096];
  while (pipe != nullptr && std::fgets(part, sizeof(part), pipe) != nullptr) output += part;
  if (pipe != nullptr) pclose(pipe);
  return output;
}

// One kernel of one target, by function name.
struct Kernel {
  std::string target;
  std::string name;
  int registers = -1;
  int stack = -1;
  int local = -1;
};

// Of the wgmma GEMM: two that multiply.
inline bool HasTwoWarpgroups(const std::string& gemm) {
  return gemm.find("WgmmaTileI") != std::string::npos && gemm.find("ELi2ELi") != std::string::npos;
}

inline std::vector<Kernel> Kernels() {
  std::istringstream lines(OutputOf(DUNLIN_CUOBJDUMP " -res-usage " DUNLIN_CUDA_MODULE));
  std::vector<Kernel> kernels;
  std::string target;
  std::smatch match;
  const std::regex arch("arch = (sm_\\w+)");
  const std::regex function("Function (\\w+):");
  const std::regex usage("REG:(\\d+) STACK:(\\d+) .*LOCAL:(\\d+)");
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, arch)) target = match[1];
    if (std::regex_search(line, match, function)) kernels.push_back({target, match[1]});
    if (std::regex_search(line, match, usage) && !kernels.empty() && kernels.back().registers < 0) {
      kernels.back().registers = std::stoi(match[1]);
      kernels.back().stack = std::stoi(match[2]);
      kernels.back().local = std::stoi(match[3]);
    }
  }
  return kernels;
}

// Occurrences of an instruction in each function of sm_90a. Disassembling is what makes this test slow.
inline const std::map<std::string, std::map<std::string, int>>& Instructions() {
  static const auto* counts = [] {
    auto* found = new std::map<std::string, std::map<std::string, int>>();
    std::istringstream lines(OutputOf(DUNLIN_CUOBJDUMP " -sass -arch sm_90a " DUNLIN_CUDA_MODULE));
    const std::string mark = "Function : ";
    std::map<std::string, int>* of_function = nullptr;
    for (std::string line; std::getline(lines, line);) {
      if (const size_t at = line.find(mark); at != std::string::npos)
        of_function = &(*found)[line.substr(at + mark.size())];
      if (of_function == nullptr || line.find(';') == std::string::npos)
        continue;  // every second line is an encoding alone
      const auto count = [&](std::initializer_list<const char*> words) {
        for (const char* word : words) {
          if (line.find(word) != std::string::npos) ++(*of_function)[word];
        }
      };
      count({"LDG.E.128", "HMMA.16816.F32", "LDSM", "LDGSTS.E.BYPASS.128", "FFMA", "F2FP.F16.E4M3.UNPACK_B",
             "ATOMS.ADD", "ATOMS.CAST", "MUFU.EX2", "MUFU.RCP", "LDL", "STL", "STS.128"});
      count({"HGMMA.64x",
             "HGMMA.64x32x",
             "HGMMA.64x256x",
             "GMMA.64x",
             "UTMALDG.2D",
             "UTMALDG.3D",
             "UTMALDG.4D",
             "UBLKCP",
             "USETMAXREG",
             "WARPGROUP.ARRIVE",
             "WARPGROUP.DEPBAR",
             "ACQBULK",
             "PREEXIT",
             "UTMALDG.5D",
             "STG.E.128",
             "MEMBAR.ALL.SYS",
             "MEMBAR.ALL.GPU",
             "STG.E.STRONG.SYS",
             "LDG.E.STRONG.SYS",
             "LDG.E.128.STRONG.SYS",
             "ATOMG.E.ADD.STRONG.SYS"});
      const bool waits = of_function->count("ACQBULK") != 0;
      for (const char* load : {"UTMALDG", "LDG"}) {
        if (waits || line.find(load) == std::string::npos) continue;
        ++(*of_function)[std::string(load) + " before ACQBULK"];
        break;
      }
    }
    return found;
  }();
  return *counts;
}

inline int Count(const std::string& kernel, const char* instruction) {
  const auto& counts = Instructions().at(kernel);
  return counts.count(instruction) == 0 ? 0 : counts.at(instruction);
}

}  // namespace dunlin::kernels::cuda
