// SPDX-License-Identifier: Apache-2.0
// `dunlin load`: simulates many clients from one process and reports what they measured.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_name.h"
#include "tools/cli/client_options.h"
#include "tools/cli/command.h"
#include "tools/cli/load_options.h"
#include "tools/load/chart.h"
#include "tools/load/result_charts.h"
#include "tools/load/session.h"

namespace dunlin::cli {
namespace {

using tools::load::Json;

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush()) return true;
  std::cerr << "cannot write " << path << "\n";
  return false;
}

bool WriteCharts(const std::string& folder, const Json& result) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  bool written = true;
  for (const tools::load::NamedChart& named : tools::load::ChartsOf(result)) {
    written &= WriteFile(folder + "/" + named.file_name + ".svg", tools::load::DrawSvg(named.chart));
  }
  return written;
}

bool WriteResult(const tools::load::LoadOptions& options, const Json& result) {
  std::cout << (options.json_file == "-" ? result.dump() + "\n" : tools::load::ResultText(result)) << std::flush;
  bool written = true;
  if (!options.json_file.empty() && options.json_file != "-") {
    written &= WriteFile(options.json_file, result.dump() + "\n");
  }
  if (!options.report_file.empty()) written &= WriteFile(options.report_file, tools::load::ReportHtml(result));
  if (!options.charts_dir.empty()) written &= WriteCharts(options.charts_dir, result);
  return written;
}

// The server of the protocol where --address is left out: DUNLIN_ADDRESS is the address of a gRPC port.
std::string DefaultAddress(const std::string& protocol) {
  if (protocol == "openai") return kDefaultHttpAddress;
  const char* const from_environment = std::getenv("DUNLIN_ADDRESS");
  return from_environment == nullptr || *from_environment == '\0' ? kDefaultAddress : from_environment;
}

// A run may take hours: whether its result can be written is asked first.
absl::Status CheckWritable(const char* option, const std::string& path) {
  if (path.empty() || path == "-") return absl::OkStatus();
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (exists ? !std::filesystem::is_directory(path, error) && access(path.c_str(), W_OK) == 0
             : access(folder.c_str(), W_OK) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(option, ": cannot write ", path));
}

int RefusedLoad(const absl::Status& status) {
  std::cerr << engine::StatusName(status.code()) << ": " << status.message() << "\n";
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

int RunLoad(tools::load::LoadOptions options) {
  absl::StatusOr<std::string> key = ReadApiKey(options.api_key_file);
  if (!key.ok()) return RefusedLoad(key.status());
  options.request.api_key = *std::move(key);
  if (options.address.empty()) options.address = DefaultAddress(options.protocol);
  absl::Status writable = CheckWritable("--json", options.json_file);
  writable.Update(CheckWritable("--report", options.report_file));
  if (!writable.ok()) return RefusedLoad(writable);
  const auto session = tools::load::Session::Open(options);
  if (!session.ok()) return RefusedLoad(session.status());
  const absl::StatusOr<Json> result = (*session)->Run();
  if (!result.ok()) return RefusedLoad(result.status());
  bool good = WriteResult(options, *result) && !(*session)->interrupted();
  for (const std::string& violation : (*session)->Violations(*result)) {
    std::cerr << violation << "\n";
    good = false;
  }
  return good ? kExitOk : kExitFailed;
}

}  // namespace

std::function<int()> SetUpLoad(CLI::App* subcommand) {
  auto options = std::make_shared<tools::load::LoadOptions>();
  AddLoadOptions(subcommand, options.get());
  return [options] { return RunLoad(*options); };
}

}  // namespace dunlin::cli
