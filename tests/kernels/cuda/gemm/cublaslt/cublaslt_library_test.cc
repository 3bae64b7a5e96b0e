// SPDX-License-Identifier: Apache-2.0
// The search for cuBLASLt: by the dynamic linker's names, as a file, in a toolkit's folder, among the wheels beside
// PyTorch, and in several places in turn. The libraries are stubs in trees laid out like these.
#include "kernels/cuda/gemm/cublaslt/cublaslt_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "kernels/cuda/gemm/cublaslt/cublaslt_search.h"

namespace dunlin::kernels::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class CublasLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("dunlin_cublas_" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  // A stub at root/place.
  std::string Install(const std::string& place, const std::string& stub) {
    const fs::path file = root_ / place;
    fs::create_directories(file.parent_path());
    fs::copy_file(DUNLIN_MODULE_DIR "/lib" + stub + ".so", file);
    return file.string();
  }
  std::string Folder(const std::string& place) const { return (root_ / place).string(); }
  // The version found, or 0 with the reason in error_.
  size_t VersionBehind(const std::string& setting) {
    CublasLt cublas{};
    return LoadCublasLt(setting, &cublas, &error_) ? cublas.GetVersion() : 0;
  }

  fs::path root_;
  std::string error_;
};

TEST_F(CublasLibrary, AnEmptySettingUsesTheDynamicLinker) {
  EXPECT_THAT(CublasCandidates(""), ElementsAre("libcublasLt.so.13", "libcublasLt.so.12"));
}

TEST_F(CublasLibrary, AFileIsOpenedDirectly) {
  const std::string file = Install("anywhere/lt.so", "cublaslt_130000");
  CublasLt cublas{};
  ASSERT_TRUE(LoadCublasLt(file, &cublas, &error_)) << error_;
  EXPECT_EQ(cublas.GetVersion(), 130000U);
  EXPECT_EQ(PathOf(cublas), file);
  EXPECT_EQ(VersionBehind(Folder("nowhere.so")), 0U);
  EXPECT_THAT(error_, HasSubstr("cuBLASLt cannot be loaded: " + Folder("nowhere.so")));
}

TEST_F(CublasLibrary, AFolderIsSearchedAsToolkitsAndWheelsAreLaidOut) {
  for (const char* place : {"plain", "toolkit/lib64", "packaged/lib", "cross/targets/x86_64-linux/lib",
                            "site13/nvidia/cu13/lib", "nvidia12/cublas/lib", "site12/nvidia/cublas/lib"}) {
    Install(std::string(place) + "/libcublasLt.so.12", "cublaslt_120900");
  }
  for (const char* folder : {"plain", "toolkit", "packaged", "cross", "site13", "nvidia12", "site12"}) {
    EXPECT_EQ(VersionBehind(Folder(folder)), 120900U) << folder << ": " << error_;
  }
}

TEST_F(CublasLibrary, TheNewestOfAFolderComesFirst) {
  const std::string old = Install("site/nvidia/cublas/lib/libcublasLt.so.12", "cublaslt_120900");
  const std::string recent = Install("site/nvidia/cu13/lib/libcublasLt.so.13", "cublaslt_130000");
  EXPECT_THAT(CublasCandidates(Folder("site")), ElementsAre(recent, old));
  EXPECT_EQ(VersionBehind(Folder("site")), 130000U);
}

TEST_F(CublasLibrary, PlacesAreTriedInTurnUntilOneIsUsable) {
  Install("old/libcublasLt.so.12", "cublaslt_120400");
  Install("good/libcublasLt.so.12", "cublaslt_120900");
  fs::create_directories(root_ / "empty");
  EXPECT_EQ(VersionBehind(Folder("gone.so") + ":" + Folder("empty") + "::" + Folder("old") + ":" + Folder("good")),
            120900U)
      << error_;
  EXPECT_EQ(VersionBehind(Folder("old") + ":" + Folder("gone.so")), 0U);
  EXPECT_THAT(error_, HasSubstr("cuBLASLt has version 120400; it needs 120900 or later; cuBLASLt cannot be loaded: "));
}

TEST_F(CublasLibrary, AFolderWithoutTheLibraryIsNamed) {
  EXPECT_EQ(VersionBehind(Folder("")), 0U);
  EXPECT_THAT(error_, HasSubstr("there is no cuBLASLt (libcublasLt.so.13 or .12) in " + Folder("")));
}

TEST_F(CublasLibrary, ALibraryWithoutItsFunctionsIsRefused) {
  EXPECT_EQ(VersionBehind(DUNLIN_MODULE_DIR "/libbroken_entry.so"), 0U);
  EXPECT_THAT(error_, HasSubstr("the cuBLASLt library has no cublasLt"));
}

}  // namespace
}  // namespace dunlin::kernels::cuda
