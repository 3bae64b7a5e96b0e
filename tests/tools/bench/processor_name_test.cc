// SPDX-License-Identifier: Apache-2.0
// The processor's name, read from a tree with the kernel's layout.
#include "tools/bench/processor_name.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/engine/base/temp_directory.h"

namespace dunlin::tools::bench {
namespace {

class ProcessorNameTest : public ::testing::Test {
 protected:
  std::string NameIn(const std::string& cpuinfo) const {
    std::filesystem::create_directories(root_.File("proc"));
    root_.Write("proc/cpuinfo", cpuinfo);
    return ProcessorName(root_.path());
  }

  engine::TempDirectory root_;
};

// A core in /proc/cpuinfo of a Linux for aarch64.
std::string Core(const std::string& implementer, const std::string& part) {
  return "processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd aes\nCPU implementer\t: " + implementer +
         "\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: " + part + "\nCPU revision\t: 1\n\n";
}

TEST_F(ProcessorNameTest, IsTheModelNameWhereThereIsOne) {
  EXPECT_EQ(NameIn("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7R13\n"),
            "AMD EPYC 7R13");
}

TEST_F(ProcessorNameTest, OfArmCoresIsThatOfTheirNumbers) {
  EXPECT_EQ(NameIn(Core("0x41", "0xd4f") + Core("0x41", "0xd4f")), "Neoverse V2");
  EXPECT_EQ(NameIn(Core("0x61", "0x022") + Core("0x41", "0xd08")), "ARM implementer 0x61 part 0x022 and Cortex-A72");
}

TEST_F(ProcessorNameTest, IsUnknownWithoutAny) {
  EXPECT_EQ(NameIn("processor\t: 0\n"), "unknown processor");
  EXPECT_EQ(ProcessorName(root_.File("nowhere")), "unknown processor");
}

}  // namespace
}  // namespace dunlin::tools::bench
