// SPDX-License-Identifier: Apache-2.0
// The machine code of the wgmma GEMM's kernels in libdunlin_cuda.so.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/machine_code.h"

namespace dunlin::kernels::cuda {
namespace {

// Four products of a stage in one group, of BF16 and FP16 in a loop each, of E4M3 for each 128 columns: had the
// compiler serialised them (C7510 and its like), each would have its own arrival and wait. Registers move from the
// warpgroup that loads to two that multiply.
TEST(CudaCode, TheWgmmaGemmKeepsItsProductsInFlight) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("WgmmaGemm") == std::string::npos) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const bool scaled = kernel.name.find("E4M3Blocks") != std::string::npos;
    const bool codes = scaled || kernel.name.find("E4M3Format") != std::string::npos;
    const int parts = !codes || kernel.name.find("ELi256E") != std::string::npos ? 2 : 1;
    EXPECT_EQ(Count(kernel.name, "GMMA.64x"), 4 * parts);
    // With weights on the M side they are loaded before the wait for the preceding kernel, too.
    const bool overlaps = kernel.name.find("SwappedTile") != std::string::npos;
    const bool paired = kernel.name.find("PairedTile") != std::string::npos;
    const bool grouped = kernel.name.find("GroupedTile") != std::string::npos;
    const int weights = overlaps ? 2 : 1;
    const int operands = scaled ? 2 : 1;  // and its scales
    EXPECT_EQ(Count(kernel.name, "UTMALDG.2D"), (paired || grouped ? 1 : 1 + weights) * operands);
    EXPECT_EQ(Count(kernel.name, "UTMALDG.3D"), grouped && !paired ? weights * operands : 0) << "of a group";
    EXPECT_EQ(Count(kernel.name, "UTMALDG.5D"), paired ? weights : 0) << "weights in pairs";
    // One thread waits before it counts the rows of groups.
    EXPECT_EQ(Count(kernel.name, "ACQBULK"), (overlaps ? 2 : 0) + (grouped ? 1 : 0));
    EXPECT_EQ(Count(kernel.name, "PREEXIT"), overlaps ? 1 : 0);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.ARRIVE"), parts);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.DEPBAR"), codes ? parts : 2 * parts);
    EXPECT_EQ(Count(kernel.name, "USETMAXREG"), HasTwoWarpgroups(kernel.name) ? 2 : 0);
    EXPECT_EQ(Count(kernel.name, "LDL") + Count(kernel.name, "STL"), 0);
  }
  EXPECT_EQ(kernels, 27 + 18 + 21 + 7);
}

// Codes and numbers by bulk copies, inputs by TMA; the products of each half of a stage in a group, while the other
// half is expanded: 32 codes a thread and stage, by one multiply-add each, for each width of codes.
TEST(CudaCode, TheWgmmaGemmOfCodesExpandsInRegisters) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("CodedWgmma") == std::string::npos) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    EXPECT_EQ(Count(kernel.name, "HGMMA.64x"), 4);
    EXPECT_EQ(Count(kernel.name, "UTMALDG.2D"), 1);
    EXPECT_EQ(Count(kernel.name, "UBLKCP"), 4) << "before the wait for the preceding kernel, and after it";
    EXPECT_EQ(Count(kernel.name, "ACQBULK"), 2);
    EXPECT_EQ(Count(kernel.name, "PREEXIT"), 1);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.ARRIVE"), 2);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.DEPBAR"), 3);
    EXPECT_GE(Count(kernel.name, "FFMA"), 3 * 32);
    EXPECT_EQ(Count(kernel.name, "LDL") + Count(kernel.name, "STL"), 0);
  }
  EXPECT_EQ(kernels, 4);
}

// Products of whole stages; each lane of the warps that expand has 32 codes of a stage, stored as four pieces, by one
// multiply-add each: int4, int8, tables, and other codes of 4, 6 and 8 bits.
TEST(CudaCode, TheWgmmaGemmOfCodesExpandsInSharedMemory) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("ExpandedWgmma") == std::string::npos) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const bool swapped = kernel.name.find("TileILi128E") == std::string::npos;
    const bool grouped = kernel.name.find("GroupedTile") != std::string::npos;
    EXPECT_EQ(Count(kernel.name, "HGMMA.64x"), 4);
    EXPECT_EQ(Count(kernel.name, "UTMALDG.2D"), 1);
    EXPECT_EQ(Count(kernel.name, "UBLKCP"), swapped ? 4 : 2);
    EXPECT_EQ(Count(kernel.name, "ACQBULK"), (swapped ? 2 : 0) + (grouped ? 1 : 0));
    EXPECT_EQ(Count(kernel.name, "PREEXIT"), swapped ? 1 : 0);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.ARRIVE"), 1);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.DEPBAR"), 2);
    EXPECT_EQ(Count(kernel.name, "STS.128"), 6 * 4);
    EXPECT_EQ(Count(kernel.name, "FFMA"), 6 * 32);
    EXPECT_EQ(Count(kernel.name, "LDL") + Count(kernel.name, "STL"), 0);
  }
  EXPECT_EQ(kernels, 4 + 3);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
