// SPDX-License-Identifier: Apache-2.0
// `dunlin calibrate DIR --text FILE --out DIR`: measures the inputs of a model's linear layers over a text and writes
// the constants of the FP8 recipe static beside the model's files.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/base/status_name.h"
#include "engine/model/load/load_model.h"
#include "engine/model/weights/input_scales.h"
#include "kernels/api/device.h"
#include "kernels/api/dtype.h"
#include "server/commands/command.h"
#include "server/commands/model_files.h"
#include "text/tokenizer.h"
#include "tools/quantize/calibration.h"

namespace dunlin::server {
namespace {

namespace fs = std::filesystem;

struct CalibrateOptions {
  std::string directory;
  std::string text;
  std::string out;
  std::string precision = "fp32";
  int64_t max_tokens = 65536;
  int threads = 0;
};

absl::StatusOr<engine::InputScales> Measure(const CalibrateOptions& options) {
  std::string error;
  const auto device = kernels::OpenDevice(kernels::DeviceKind::kCpu, {options.threads, ""}, &error);
  if (device == nullptr) return absl::FailedPreconditionError(error);
  engine::ModelSource source;
  source.path = options.directory;
  source.precisions = {kernels::FindByName(kernels::kPrecisionTable, options.precision)->precision};
  const auto model = engine::LoadModel(source, device.get());
  if (!model.ok()) return model.status();
  const auto tokenizer = text::Tokenizer::Load(options.directory, (*model)->config().vocab_size);
  if (!tokenizer.ok()) return tokenizer.status();
  const auto tokens =
      ReadTokens(**tokenizer, (*model)->config().vocab_size, "--text", options.text, options.max_tokens);
  if (!tokens.ok()) return tokens.status();
  std::cerr << "calibrating over " << tokens->size() << " tokens in " << options.precision << "\n";
  return engine::CalibrateInputs(**model, *tokens);
}

// Writes to a temporary file and renames it, so that a server that starts meanwhile sees the old file or the new one.
absl::Status WriteScales(const CalibrateOptions& options, const engine::InputScales& scales) {
  const fs::path out = options.out;
  std::error_code error =
      CopyModelFiles(options.directory, out, [](const std::string& name) { return name != engine::kInputScalesFile; });
  const fs::path part = out / absl::StrCat(engine::kInputScalesFile, ".part");
  if (!error) {
    std::ofstream stream(part, std::ios::binary | std::ios::trunc);
    stream << engine::InputScalesText(scales);
    stream.close();
    if (!stream) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(part, out / engine::kInputScalesFile, error);
  if (!error) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("--out ", options.out, " cannot be written: ", error.message()));
}

int RunCalibrate(const CalibrateOptions& options) {
  const absl::StatusOr<engine::InputScales> scales = Measure(options);
  const absl::Status status = scales.ok() ? WriteScales(options, *scales) : scales.status();
  if (!status.ok()) {
    std::cerr << engine::StatusName(status.code()) << ": " << std::string(status.message()) << "\n";
    return kExitFailed;
  }
  std::cout << options.out << "/" << engine::kInputScalesFile << ": " << scales->size() << " input scales\n";
  return kExitOk;
}

}  // namespace

std::function<int()> SetUpCalibrate(CLI::App* subcommand) {
  auto options = std::make_shared<CalibrateOptions>();
  subcommand->add_option("directory", options->directory, "A Hugging Face model directory with a tokenizer.json")
      ->required();
  subcommand->add_option("--text", options->text, "UTF-8 text that is representative of the expected prompts")
      ->required();
  subcommand
      ->add_option("--out", options->out,
                   "Output directory, which also gets a copy of the model unless it is the model directory itself")
      ->required();
  subcommand->add_option("--precision", options->precision, "Precision of the calibration run")
      ->check(CLI::IsMember(kernels::NamesOf(kernels::kPrecisionTable)))
      ->capture_default_str();
  subcommand->add_option("--max-tokens", options->max_tokens, "Use at most this many tokens of the text")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  subcommand->add_option("--threads", options->threads, "Compute threads; 0: every CPU available to the process")
      ->check(CLI::Range(0, 1024));
  return [options] { return RunCalibrate(*options); };
}

}  // namespace dunlin::server
