// SPDX-License-Identifier: Apache-2.0
// `dunlin quantize DIR --to int4 --out DIR`: writes a compressed-tensors checkpoint of integer codes, rounded to
// nearest or, with a text, by GPTQ.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_name.h"
#include "engine/model/load/load_model.h"
#include "kernels/api/device.h"
#include "kernels/api/dtype.h"
#include "server/commands/command.h"
#include "server/commands/model_files.h"
#include "text/tokenizer.h"
#include "tools/quantize/quantize_checkpoint.h"
#include "tools/quantize/text_windows.h"

namespace dunlin::server {
namespace {

namespace fs = std::filesystem;

// The last tokens of the text are kept from GPTQ, so that the perplexity on them says something.
constexpr size_t kHeldOutShare = 8;
constexpr size_t kHeldOutMax = 16384;

struct Options {
  std::string directory;
  std::string out;
  std::string format;
  int64_t group = 32;
  std::string text;
  std::string precision = "bf16";
  int64_t max_tokens = 65536;
  bool act_order = true;  // with a text
  int64_t moments_mib = 4096;
  int threads = 0;
};

struct Text {
  std::vector<engine::TokenId> observed;
  std::vector<engine::TokenId> held_out;
};

absl::StatusOr<std::unique_ptr<engine::Model>> LoadModel(const Options& options, const std::string& directory,
                                                         kernels::Device* device) {
  engine::ModelSource source;
  source.path = directory;
  source.precisions = {kernels::FindByName(kernels::kPrecisionTable, options.precision)->precision};
  return engine::LoadModel(source, device);
}

absl::StatusOr<Text> ReadHeldOut(const Options& options, const engine::Model& model) {
  const auto tokenizer = text::Tokenizer::Load(options.directory, model.config().vocab_size);
  if (!tokenizer.ok()) return tokenizer.status();
  auto tokens = ReadTokens(**tokenizer, model.config().vocab_size, "--calibration", options.text, options.max_tokens);
  if (!tokens.ok()) return tokens.status();
  const size_t held_out = std::min(tokens->size() / kHeldOutShare, kHeldOutMax);
  if (held_out < 2) {
    return absl::InvalidArgumentError(absl::StrCat("--calibration ", options.text, " has ", tokens->size(),
                                                   " tokens; must be at least ", 2 * kHeldOutShare));
  }
  const auto middle = tokens->end() - static_cast<std::ptrdiff_t>(held_out);
  return Text{{tokens->begin(), middle}, {middle, tokens->end()}};
}

absl::Status PrintPerplexity(const char* name, const engine::Model& model, const Text& text) {
  const absl::StatusOr<engine::Perplexity> perplexity = engine::MeasurePerplexity(model, text.held_out);
  if (!perplexity.ok()) return perplexity.status();
  std::cout << absl::StrFormat("perplexity %s: %.4f (%d tokens held out, %s)\n", name, perplexity->value,
                               perplexity->scored_tokens, kernels::Name(model.precisions().front()));
  return absl::OkStatus();
}

// Everything but the weights, their index and config.json, which are written anew.
bool IsKept(const std::string& name) {
  const fs::path path(name);
  const bool index = name.ends_with(".index.json");
  return name != "config.json" && !index && path.extension() != ".safetensors" && path.extension() != ".bin" &&
         path.extension() != ".pt" && path.extension() != ".gguf" && path.extension() != ".part";
}

absl::Status OutFailure(const Options& options, const std::error_code& error) {
  return absl::InternalError(absl::StrCat("--out ", options.out, " cannot be written: ", error.message()));
}

absl::Status CheckOut(const Options& options) {
  std::error_code error;
  if (!fs::exists(fs::path(options.out) / "config.json", error)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("--out ", options.out, " has a model already"));
}

absl::Status MakeOut(const Options& options) {
  std::error_code error;
  fs::create_directories(options.out, error);
  return error ? OutFailure(options, error) : absl::OkStatus();
}

absl::StatusOr<engine::QuantizeReport> WriteCheckpoint(const Options& options, const engine::QuantizeOptions& quantize,
                                                       const engine::Model* model, const Text& text) {
  if (absl::Status status = MakeOut(options); !status.ok()) return status;
  absl::StatusOr<engine::QuantizeReport> report = engine::QuantizeCheckpoint(quantize, model, text.observed);
  std::error_code error;
  if (!report.ok()) {
    fs::remove(options.out, error);  // if it is empty
    return report;
  }
  error = CopyModelFiles(options.directory, options.out, IsKept);
  if (error) return OutFailure(options, error);
  for (const fs::directory_entry& entry : fs::directory_iterator(options.directory, error)) {
    // sentence-transformers keeps the config of a module in a folder: 1_Pooling/config.json.
    if (!entry.is_directory() || !fs::exists(entry.path() / "config.json")) continue;
    const fs::path to = fs::path(options.out) / entry.path().filename();
    const auto is_config = [](const std::string& name) { return name == "config.json"; };
    if (const std::error_code failed = CopyModelFiles(entry.path(), to, is_config)) return OutFailure(options, failed);
  }
  if (error) return OutFailure(options, error);
  return report;
}

absl::Status RunQuantize(const Options& options) {
  std::string error;
  const auto device = kernels::OpenDevice(kernels::DeviceKind::kCpu, {options.threads, ""}, &error);
  if (device == nullptr) return absl::FailedPreconditionError(error);
  engine::QuantizeOptions quantize;
  quantize.directory = options.directory;
  quantize.out = options.out;
  quantize.bits = options.format == "int8" ? 8 : 4;
  quantize.group = options.group;
  quantize.by_activity = options.act_order;
  quantize.num_threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  quantize.moments_bytes = static_cast<size_t>(options.moments_mib) << 20;
  quantize.progress = [](const std::string& line) { std::cerr << line << "\n"; };
  // Before the runs over the text, which take long.
  if (absl::Status status = CheckOut(options); !status.ok()) return status;
  if (absl::Status status = engine::CheckQuantizable(quantize); !status.ok()) return status;
  std::unique_ptr<engine::Model> model;
  Text text;
  if (!options.text.empty()) {
    auto loaded = LoadModel(options, options.directory, device.get());
    if (!loaded.ok()) return loaded.status();
    model = *std::move(loaded);
    absl::StatusOr<Text> read = ReadHeldOut(options, *model);
    if (!read.ok()) return read.status();
    text = *std::move(read);
  }
  if (model != nullptr) {
    if (absl::Status status = PrintPerplexity("before", *model, text); !status.ok()) return status;
  }
  const absl::StatusOr<engine::QuantizeReport> report = WriteCheckpoint(options, quantize, model.get(), text);
  if (!report.ok()) return report.status();
  if (model != nullptr) {
    model = nullptr;  // before the next one takes its memory
    const auto written = LoadModel(options, options.out, device.get());
    if (!written.ok()) return written.status();
    if (absl::Status status = PrintPerplexity("after", **written, text); !status.ok()) return status;
  }
  std::cout << options.out << ": " << report->matrices << " matrices of " << report->parameters << " parameters in "
            << options.format << ", " << report->bytes_before << " -> " << report->bytes_after << " bytes\n";
  return absl::OkStatus();
}

}  // namespace

std::function<int()> SetUpQuantize(CLI::App* subcommand) {
  auto options = std::make_shared<Options>();
  subcommand->add_option("directory", options->directory, "A Hugging Face model directory that is not quantised")
      ->required();
  subcommand->add_option("--to", options->format, "Codes of the linear layers' weights")
      ->required()
      ->check(CLI::IsMember({"int4", "int8"}));
  subcommand->add_option("--out", options->out, "Output directory, without a model")->required();
  subcommand->add_option("--group-size", options->group, "Columns that share a scale; 0: a whole row")
      ->check(CLI::IsMember({0, 32, 64, 128}))
      ->capture_default_str();
  subcommand->add_option("--calibration", options->text,
                         "UTF-8 text, representative of the expected prompts: rounds by GPTQ, and measures the "
                         "perplexity of its last eighth before and after");
  const CLI::Option* order = subcommand->add_flag(
      "--act-order,!--no-act-order", options->act_order,
      "GPTQ rounds columns in descending order of their inputs' energy, not from left to right; the "
      "default with --calibration");
  subcommand->add_option("--precision", options->precision, "Precision of the runs over the text")
      ->check(CLI::IsMember(kernels::NamesOf(kernels::kPrecisionTable)))
      ->capture_default_str();
  subcommand->add_option("--max-tokens", options->max_tokens, "Use at most this many tokens of the text")
      ->check(CLI::Range(int64_t{16}, int64_t{1} << 30))
      ->capture_default_str();
  subcommand
      ->add_option("--moments-mib", options->moments_mib,
                   "Memory for the statistics of inputs; with less, the text is run more often")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  subcommand->add_option("--threads", options->threads, "Compute threads; 0: every CPU available to the process")
      ->check(CLI::Range(0, 1024));
  return [options, order] {
    if (order->count() > 0 && options->text.empty()) {
      std::cerr << "--act-order and --no-act-order need --calibration\n";
      return kExitUsage;
    }
    const absl::Status status = RunQuantize(*options);
    if (status.ok()) return kExitOk;
    std::cerr << engine::StatusName(status.code()) << ": " << std::string(status.message()) << "\n";
    return kExitFailed;
  };
}

}  // namespace dunlin::server
