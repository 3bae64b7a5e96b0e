// SPDX-License-Identifier: Apache-2.0
// Configs in a folder of their own.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/config.h"

namespace dunlin::server {

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() { std::filesystem::create_directories(folder_); }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<Config> Load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    std::ofstream(folder_ + "/config.json") << text;
    return LoadConfig(folder_ + "/config.json", overrides);
  }

  const std::string folder_ = testing::TempDir() + "dunlin_config_" + std::to_string(getpid());
};

inline constexpr char kSmallest[] = R"({"models": [{"name": "m", "path": "here"}]})";

}  // namespace dunlin::server
