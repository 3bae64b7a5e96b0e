// SPDX-License-Identifier: Apache-2.0
// libdunlin_cuda.so as built: its dependencies and exports, its table, its errors where there is no device, and its
// machine code.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "kernels/api/device_module.h"
#include "kernels/cuda/ranks/stage_columns.h"
#include "kernels/loader/load_module.h"
#include "tests/kernels/cuda/elf_file.h"
#include "tests/kernels/cuda/machine_code.h"

namespace dunlin::kernels::cuda {
namespace {

using ::testing::HasSubstr;

// What a module reports without a driver, without a device or, with a device, without cuBLASLt.
const ::testing::Matcher<const std::string&> kNoDevice = ::testing::AnyOf(
    HasSubstr("CUDA driver"), HasSubstr("CUDA device"), HasSubstr("cuBLASLt cannot be loaded: /nowhere"));

const DeviceModule* Module() {
  static void* library = dlopen(DUNLIN_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<DeviceModuleEntry>(dlsym(library, kDeviceModuleEntry))();
}

TEST(CudaModule, NeedsNoCudaLibraryToBeOpened) {
  for (const std::string& library : NeededLibraries(DUNLIN_CUDA_MODULE)) {
    EXPECT_THAT(library, ::testing::MatchesRegex("(libstdc\\+\\+|libgcc_s|libm|libc|libpthread|libdl|librt|ld-linux).*|"
                                                 "libasan.*|libubsan.*|libtsan.*"));
  }
}

TEST(CudaModule, BelongsToThisBuild) {
  ASSERT_NE(Module(), nullptr) << dlerror();
  EXPECT_EQ(Module()->abi_version, kDeviceModuleAbi);
  EXPECT_STREQ(Module()->api_digest, DUNLIN_API_DIGEST);
  EXPECT_EQ(Module()->ops->kind, DeviceKind::kCuda);
}

// The loader accepts it, so the error is about the device.
TEST(CudaModule, IsComplete) {
  ASSERT_NE(Module(), nullptr);
  EXPECT_THAT(MissingEntries(*Module()->ops), ::testing::IsEmpty());
  DeviceOptions options;
  options.cuda_module = DUNLIN_CUDA_MODULE;
  options.cublas_library = "/nowhere/libcublasLt.so.13";
  std::string error;
  EXPECT_EQ(OpenDevice(DeviceKind::kCuda, options, &error), nullptr);
  EXPECT_THAT(error, kNoDevice);
}

TEST(CudaModule, ReportsWhyItHasNoDevice) {
  ASSERT_NE(Module(), nullptr);
  const DeviceModuleOptions options{.device = 0,
                                    .cublas_library = "/nowhere/libcublasLt.so.13",
                                    .cublas_algorithm_cache = "",
                                    .sm90_kernels = true,
                                    .cuda_graphs = true};
  DeviceModuleReply reply{};
  EXPECT_EQ(Module()->open(&options, &reply), nullptr);
  EXPECT_THAT(std::string(reply.error), kNoDevice);
}

// Of FLASH by wgmma: blocks of three or four warpgroups, with two that multiply, or codes; of four, codes and two.
bool FlashMovesRegisters(const std::string& flash) {
  return flash.find("ELi2ELb") != std::string::npos || flash.find("ELb1EE") != std::string::npos ||
         flash.find("WgmmaLatentShape") != std::string::npos || flash.find("WgmmaWideShape") != std::string::npos;
}

// An SM has 65,536 registers: four blocks of 256 threads (two of the packing of weights and codes, one of their
// rounding), or two of attention's 128; FLASH with four slices runs one. The tile GEMM, with 128 threads, runs four,
// three and two blocks with 1, 2 and 4 groups of rows; on sm_120 two with 2 groups and scale blocks. The grouped one
// runs three with 1 group of rows and two with more. Scans run four of 128, with states of 256 rows two. The 384
// threads of wgmma kernels are launched with 168 each, 512 with 128, which its warpgroups then divide; two or four
// blocks of 160 threads share an SM where the weights are on the M side, three of 288 where codes of 16 outputs are
// expanded.
int RegisterBudget(const Kernel& of) {
  const std::string& kernel = of.name;
  const auto is = [&](const char* part) { return kernel.find(part) != std::string::npos; };
  if (is("PackRows") || is("PackGivenCodes")) return 128;
  if (is("PackRoundedCodes")) return 255;
  if (is("SwappedTile")) return 200;
  if (is("CodedWgmma")) return is("TileILi8E") || is("TileILi16E") ? 96 : 200;
  if (is("ExpandedWgmma")) return is("TileILi8E") || is("TileILi16E") ? 72 : 128;
  if (is("WgmmaGemm")) return HasTwoWarpgroups(kernel) ? 168 : 255;
  if (is("WgmmaFlash")) {
    return is("ELi64ELi2ELb1EE") || is("ELi128ELi2ELb1EE") ? 128 : FlashMovesRegisters(kernel) ? 168 : 255;
  }
  if (is("ScanStates")) return is("ELi8EE") ? 255 : 128;
  if (is("GroupedGemm")) return is("ELi1ELb") || is("BlockILi1E") || is("Fp32GemmBlock") ? 168 : 255;
  if (is("CodedGemm")) return is("ILi1E") ? 128 : is("ILi2E") ? 168 : 255;
  if (is("TileGemm")) {
    if (of.target == "sm_120" && is("ELi2ELb1")) return 255;
    return is("ELi1ELb") ? 128 : is("ELi2ELb") ? 168 : 255;
  }
  return is("EfficientRows") || is("FlashRows") || is("MathRows") ? 255 : 64;
}

TEST(CudaCode, EveryKernelOfEveryTargetFitsItsRegistersWithoutSpills) {
  std::map<std::string, int> per_target;
  for (const Kernel& kernel : Kernels()) {
    SCOPED_TRACE(kernel.target + " " + kernel.name);
    ++per_target[kernel.target];
    EXPECT_GE(kernel.registers, 1);
    EXPECT_LE(kernel.registers, RegisterBudget(kernel));
    EXPECT_EQ(kernel.stack, 0);
    EXPECT_EQ(kernel.local, 0);
  }
  // 18 of row_ops, 9 of element_ops, 4 of roof_loops, 3 of efficient, 10 of flash, 2 of math, 11 of the tile GEMM and
  // one for its slices, two of gemm and of sampling, one each of pack_weight and norms over all heads; of integer codes
  // 3 of the tile GEMM, one that expands them and 3 of packing; 3 of experts; 4 of index keys; 11 of the grouped GEMM;
  // of recurrent layers 10 scans and 4 more; 2 of adapters and of linked ranks.
  constexpr int kKernels = 107;
  // 27 of the wgmma GEMM and 18 with paired outputs, 21 on groups and 7 with gates, 8 of codes and 3 of these
  // on groups, 18 of FLASH by wgmma, as many of adjusted scores, 3 of wide heads and 2 of latent rows, in sm_90a
  // alone, whatever the other targets.
  std::map<std::string, int> expected = {{"sm_90a", 27 + 18 + 21 + 7 + 8 + 3 + 2 * 18 + 3 + 2}};
  std::istringstream architectures(DUNLIN_CUDA_ARCHITECTURES);
  for (std::string arch; architectures >> arch;) expected["sm_" + arch] += kKernels;
  EXPECT_EQ(per_target, expected);
}

TEST(CudaCode, RowKernelsReadAndWriteFourFloatsAtOnce) {
  int row_kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    const bool is_row = kernel.name.find("WriteRows") != std::string::npos ||
                        kernel.name.find("WritePlainRows") != std::string::npos ||
                        kernel.name.find("MeasureRows") != std::string::npos;
    if (kernel.target != "sm_90a" || !is_row) continue;
    ++row_kernels;
    EXPECT_GT(Count(kernel.name, "LDG.E.128"), 0) << kernel.name;
    // The product of the rows may begin.
    EXPECT_EQ(Count(kernel.name, "PREEXIT"), kernel.name.find("MeasureRows") != std::string::npos ? 0 : 1)
        << kernel.name;
  }
  EXPECT_EQ(row_kernels, 18);
}

// Those that may begin before the preceding kernel has ended read nothing until they have waited for it, and let the
// next one begin.
TEST(CudaCode, SmallKernelsWaitBeforeTheyRead) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    const auto is = [&](const char* name) { return kernel.name.find(name) != std::string::npos; };
    const bool early = is("WriteRows") || is("WritePlainRows") || is("SoftcapValues") || is("AddRows") ||
                       is("CopyPickedRows") || is("CopyRowBlocks") || is("UpdateInputs") || is("FillRotaryTable") ||
                       is("GatherPackedRows") || is("GatherCodedRows") || is("NormJointHeads") ||
                       is("RotateAndStoreHeads") || is("ChooseExperts") || is("PlaceExpertRows") || is("AddWeighted") ||
                       is("SampleRows") || is("TakeDrawnTokens") || is("MergedRows") || is("WgmmaFlash") ||
                       is("ScanStates") || is("ConvolveRows") || is("NormGroupsBy") || is("GateRows");
    if (kernel.target != "sm_90a" || !early) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    EXPECT_EQ(Count(kernel.name, "ACQBULK"), 1);
    EXPECT_EQ(Count(kernel.name, "PREEXIT"), 1);
    EXPECT_EQ(Count(kernel.name, "LDG before ACQBULK"), 0);
    EXPECT_EQ(Count(kernel.name, "UTMALDG before ACQBULK"), 0);
  }
  EXPECT_EQ(kernels, 15 + 10 + 3 + 2 + 1 + 41 + 10 + 4)
      << "of row_ops, element_ops, experts, sampling, the merge of attention, FLASH by wgmma, scans, recurrent.cu";
}

// Columns go to other devices 16 bytes at a time, or to the host's memory and from there four such loads at once, past
// the device's caches; signals and the count of blocks are released and acquired for the whole system. Both kernels
// wait for what they read, and let nothing begin before their end.
TEST(CudaCode, LinkedRanksReleaseAndAcquireForTheSystem) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    const bool by_host = kernel.name.find("StageRankColumns") != std::string::npos;
    if (kernel.target != "sm_90a" || !(by_host || kernel.name.find("ShareRankColumns") != std::string::npos)) continue;
    ++kernels;
    if (by_host) {
      EXPECT_GE(Count(kernel.name, "STG.E.128"), 1);
      EXPECT_EQ(Count(kernel.name, "LDG.E.128.STRONG.SYS"), static_cast<int>(kTakenUnits));
    } else {
      EXPECT_EQ(Count(kernel.name, "STG.E.128"), kMaxLinkedRanks);
    }
    EXPECT_GE(Count(kernel.name, "LDG.E.128"), 1);
    EXPECT_EQ(Count(kernel.name, "ATOMG.E.ADD.STRONG.SYS"), 1) << "the count of blocks";
    EXPECT_GE(Count(kernel.name, "STG.E.STRONG.SYS"), 1) << "the signal";
    EXPECT_GE(Count(kernel.name, "LDG.E.STRONG.SYS"), 2) << "other ranks' signals, and the host's word";
    EXPECT_GE(Count(kernel.name, "MEMBAR.ALL.SYS"), 2) << "before the count and before the signal";
    EXPECT_EQ(Count(kernel.name, "MEMBAR.ALL.GPU"), 0);
    EXPECT_EQ(Count(kernel.name, "ACQBULK"), 1);
    EXPECT_EQ(Count(kernel.name, "PREEXIT"), 0);
    EXPECT_EQ(Count(kernel.name, "LDG before ACQBULK"), 0);
    EXPECT_EQ(Count(kernel.name, "LDL") + Count(kernel.name, "STL"), 0);
  }
  EXPECT_EQ(kernels, 2);
}

// Tensor cores and matrix loads for 2-byte operands, none for FP32; 16-byte asynchronous copies everywhere.
TEST(CudaCode, AttentionUsesTensorCoresAndAsynchronousCopies) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    const bool flash = kernel.name.find("FlashRows") != std::string::npos;
    const bool efficient = kernel.name.find("EfficientRows") != std::string::npos;
    const bool math = kernel.name.find("MathRows") != std::string::npos;
    if (kernel.target != "sm_90a" || !(flash || efficient || math)) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const bool tensor = kernel.name.find("Format") != std::string::npos;
    EXPECT_EQ(tensor, flash || (efficient && kernel.name.find("Fp32Products") == std::string::npos));
    EXPECT_GT(Count(kernel.name, "LDGSTS.E.BYPASS.128"), 0);
    if (tensor) {
      // A tile of 64 x 64 x 64 is 32 products per warp, once for scores and once for values.
      EXPECT_GE(Count(kernel.name, "HMMA.16816.F32"), 64);
      EXPECT_GE(Count(kernel.name, "LDSM"), 20 + 16);
    } else {
      EXPECT_EQ(Count(kernel.name, "HMMA.16816.F32"), 0);
      EXPECT_GE(Count(kernel.name, "FFMA"), 2 * 128);
    }
  }
  EXPECT_EQ(kernels, 14);
}

// Nothing was optimised away: every loop's body is complete.
TEST(CudaCode, RoofLoopsHaveTheInstructionsTheyCount) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a") continue;
    const bool fma = kernel.name.find("FmaRounds") != std::string::npos;
    const bool mma = kernel.name.find("MmaRounds") != std::string::npos;
    if (!fma && !mma) continue;
    ++kernels;
    EXPECT_EQ(Count(kernel.name, fma ? "FFMA" : "HMMA.16816.F32"), fma ? 32 * 8 : 4 * 8) << kernel.name;
  }
  EXPECT_EQ(kernels, 3);
}

// A tile of 16 rows and 64 columns is 8 products per warp, twice as many for E4M3 codes; each operand is loaded once
// and widened by the dedicated instruction.
TEST(CudaCode, TheTileGemmUsesTensorCoresOnAsynchronousCopies) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("TileGemm") == std::string::npos) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const bool codes = kernel.name.find("CodeOperand") != std::string::npos;
    const int groups = kernel.name.find("ELi1ELb") != std::string::npos   ? 1
                       : kernel.name.find("ELi2ELb") != std::string::npos ? 2
                                                                          : 4;
    EXPECT_GE(Count(kernel.name, "HMMA.16816.F32"), (codes ? 16 : 8) * groups);
    EXPECT_GE(Count(kernel.name, "LDSM"), 4 + groups);
    EXPECT_GE(Count(kernel.name, "LDGSTS.E.BYPASS.128"), 4 + groups);
    if (codes) {
      EXPECT_GE(Count(kernel.name, "F2FP.F16.E4M3.UNPACK_B"), 32 + 8 * groups);
    }
  }
  EXPECT_EQ(kernels, 11);
}

// Products of a tile's keys in one group, of its values in another, each twice: a block's first or last tile alone, and
// in the loop, where the weights are computed between the two waits. Boxes of keys and of values, for each 64 dims; of
// codes for each 128, and pieces of scales. A lane widens two pieces of 16 codes at once: of keys, of values, and of
// values that are looked through. Of adjusted scores each has a second exponential and a reciprocal, for its cap.
TEST(CudaCode, FlashByWgmmaKeepsItsProductsInFlight) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("WgmmaFlashShape") == std::string::npos) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const bool wide = kernel.name.find("ELi256E") != std::string::npos;
    const int slices = wide ? 4 : kernel.name.find("ELi128E") != std::string::npos ? 2 : 1;
    const int tile_keys = wide ? 64 : 128;
    EXPECT_EQ(Count(kernel.name, "HGMMA.64x"), 2 * (4 * slices + tile_keys / 16));
    const bool codes = kernel.name.find("ELb1EE") != std::string::npos;
    EXPECT_EQ(Count(kernel.name, "UTMALDG.4D"), codes ? 2 * ((slices + 1) / 2) : 2 * slices);
    EXPECT_EQ(Count(kernel.name, "UBLKCP"), codes ? 2 : 0);
    EXPECT_GE(Count(kernel.name, "F2FP.F16.E4M3.UNPACK_B"), codes ? 3 * 2 * 8 + 32 * slices : 0);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.ARRIVE"), 4);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.DEPBAR"), 4);
    const bool adjusts = kernel.name.find("WgmmaAdjusted") != std::string::npos;
    EXPECT_GE(Count(kernel.name, "MUFU.EX2"), (adjusts ? 2 : 1) * tile_keys);
    EXPECT_EQ(Count(kernel.name, "MUFU.RCP") >= tile_keys, adjusts);
    EXPECT_EQ(Count(kernel.name, "USETMAXREG"), FlashMovesRegisters(kernel.name) ? 2 : 0);
    EXPECT_EQ(Count(kernel.name, "LDL") + Count(kernel.name, "STL"), 0);
  }
  EXPECT_EQ(kernels, 2 * 18);
}

// Of warpgroups that share rows: scores of half of a tile's keys, weights from shared memory times half of the columns,
// each twice. Of latent rows a box for each 64 dims of the keys, which hold the values; of wide heads as many of the
// values; of their codes for each 128.
TEST(CudaCode, FlashByWgmmaOfSharedRowsLoadsATileOnce) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    const bool latent = kernel.name.find("WgmmaLatentShape") != std::string::npos;
    const bool wide = kernel.name.find("WgmmaWideShape") != std::string::npos;
    if (kernel.target != "sm_90a" || !(latent || wide)) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const bool codes = kernel.name.find("ELb1EE") != std::string::npos;
    EXPECT_EQ(Count(kernel.name, "HGMMA.64x32x"), 2 * (latent ? 36 : 32));
    EXPECT_EQ(Count(kernel.name, "HGMMA.64x256x"), 2 * 4);
    EXPECT_EQ(Count(kernel.name, "UTMALDG.4D"), latent ? 9 : codes ? 2 * 4 : 2 * 8);
    EXPECT_EQ(Count(kernel.name, "UBLKCP"), codes ? 2 : 0);
    EXPECT_EQ(Count(kernel.name, "WARPGROUP.DEPBAR"), 4);
    EXPECT_EQ(Count(kernel.name, "USETMAXREG"), 2);
    EXPECT_EQ(Count(kernel.name, "LDL") + Count(kernel.name, "STL"), 0);
  }
  EXPECT_EQ(kernels, 2 + 3);
}

// As the tile GEMM with BF16 operands; a thread expands 32 codes a tile, by one multiply-add each.
TEST(CudaCode, TheCodedGemmUsesTensorCoresOnAsynchronousCopies) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("CodedGemmI") == std::string::npos) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const int groups = kernel.name.find("ILi1E") != std::string::npos   ? 1
                       : kernel.name.find("ILi2E") != std::string::npos ? 2
                                                                        : 4;
    EXPECT_GE(Count(kernel.name, "HMMA.16816.F32"), 8 * groups);
    EXPECT_GE(Count(kernel.name, "LDSM"), 4 + groups);
    EXPECT_GE(Count(kernel.name, "LDGSTS.E.BYPASS.128"), 2 + groups);
    EXPECT_GE(Count(kernel.name, "FFMA"), 3 * 32) << "of codes of 4, 6 and 8 bits";
  }
  EXPECT_EQ(kernels, 3);
}

TEST(CudaCode, TheGroupedGemmUsesTensorCoresButForFp32) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("GroupedGemm") == std::string::npos) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const bool fp32 = kernel.name.find("Fp32GemmBlock") != std::string::npos;
    EXPECT_GE(Count(kernel.name, fp32 ? "FFMA" : "HMMA.16816.F32"), fp32 ? 32 * 4 : 8);
    EXPECT_GE(Count(kernel.name, "LDGSTS.E.BYPASS.128"), 3);
  }
  EXPECT_EQ(kernels, 11);
}

// Loaded four columns at a time; a multiply-add of an element for its update, the output and, in a delta net, what is
// stored.
TEST(CudaCode, ScansKeepStatesInRegisters) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("ScanStates") == std::string::npos) continue;
    SCOPED_TRACE(kernel.name);
    ++kernels;
    const int passes = kernel.name.find("DeltaRule") != std::string::npos ? 3 : 2;
    const int slices = kernel.name[kernel.name.find("RuleELi") + 7] - '0';
    EXPECT_GE(Count(kernel.name, "LDG.E.128"), 4 * slices);
    EXPECT_GE(Count(kernel.name, "FFMA"), passes * 16 * slices);
    EXPECT_EQ(Count(kernel.name, "LDL") + Count(kernel.name, "STL"), 0);
  }
  EXPECT_EQ(kernels, 10);
}

// Additions to bins in shared memory are single instructions, not loops of compare and swap.
TEST(CudaCode, SamplingAddsToItsBinsNatively) {
  int kernels = 0;
  for (const Kernel& kernel : Kernels()) {
    if (kernel.target != "sm_90a" || kernel.name.find("SampleRows") == std::string::npos) continue;
    ++kernels;
    EXPECT_GT(Count(kernel.name, "ATOMS.ADD"), 0);
    EXPECT_EQ(Count(kernel.name, "ATOMS.CAST"), 0);
  }
  EXPECT_EQ(kernels, 1);
}

TEST(CudaModule, IsSmallEnoughToTravel) {
  EXPECT_LT(std::filesystem::file_size(DUNLIN_CUDA_MODULE), size_t{60} << 20);
}

TEST(CudaCode, ContainsHopperPtxForLaterDevices) {
  EXPECT_THAT(OutputOf(DUNLIN_CUOBJDUMP " -lptx " DUNLIN_CUDA_MODULE), HasSubstr("sm_90"));
}

}  // namespace
}  // namespace dunlin::kernels::cuda
