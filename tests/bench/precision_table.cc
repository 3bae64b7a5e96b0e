// SPDX-License-Identifier: Apache-2.0
// The accuracy tables of docs/precision.md: every precision, FP8 recipe and KV dtype of a model against its FP32.
//   precision_table demo               perplexity of models/demo on its held-out text
//   precision_table text FILE TOKENIZER PATH=PRECISION,...
//                                      perplexity on the text FILE, in tokens of the directory TOKENIZER, of the models
//                                      at PATH: a line with path, precision and value for each, separated by tabs
//   precision_table SHAPE [TOKENS]     logits of a random model ("llama-1b") over random token ids
//   precision_table families           RMS error of the logits of every model of tests/golden/models, in percent
// The recipe static freezes the scales of delayed scaling after the first windows (max of their amaxes).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "absl/strings/str_split.h"
#include "engine/base/check.h"
#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/test_model.h"
#include "text/tokenizer.h"

namespace dunlin::engine {
namespace {

using Rows = std::vector<std::vector<float>>;
using Windows = std::vector<std::vector<TokenId>>;

constexpr size_t kCalibrationWindows = 4;
constexpr int32_t kMaxWindow = 1023;  // tokens: the demo model's context less one

struct Variant {
  ExecutionProfile profile;
  DirectRunOptions options;
};

class Subject {
 public:
  Subject(TestModel model, Windows windows) : model_(std::move(model)), windows_(std::move(windows)) {
    for (const auto& window : windows_) longest_ = std::max(longest_, static_cast<int32_t>(window.size()));
  }

  // Runs the windows, each in one step, and passes the logits of each to `take`. Stateful recipes see the first
  // windows beforehand.
  template <typename Take>
  void Score(const Variant& variant, const Take& take) const {
    DirectRun run(model_.model.get(), variant.profile, longest_, variant.options);
    if (variant.options.fp8.recipe == Fp8Recipe::kDelayed) Warm(&run);
    for (const auto& window : windows_) take(window, run.Logits(window, longest_));
  }

  std::vector<float> Calibrate() const {
    Variant variant;
    variant.profile.precision = Precision::kFp8;
    variant.profile.fp8_recipe = variant.options.fp8.recipe = Fp8Recipe::kDelayed;
    variant.options.fp8.amax_history_len = static_cast<int32_t>(std::min(kCalibrationWindows, windows_.size()));
    DirectRun run(model_.model.get(), variant.profile, longest_, variant.options);
    Warm(&run);  // the amaxes of steps that still ran with a scale of 1 drop out in the second round
    Warm(&run);
    return run.InputScales();
  }

 private:
  void Warm(DirectRun* run) const {
    for (size_t i = 0; i < std::min(kCalibrationWindows, windows_.size()); ++i) run->Logits(windows_[i], longest_);
  }

  TestModel model_;
  Windows windows_;
  int32_t longest_ = 0;
};

std::vector<Variant> Variants(const Subject& subject) {
  std::vector<Variant> variants;
  for (const Precision precision :
       {Precision::kFp32, Precision::kFp16, Precision::kBf16, Precision::kInt8, Precision::kInt4}) {
    variants.emplace_back().profile.precision = precision;
  }
  for (const Fp8RecipeTraits& recipe : kFp8RecipeTable) {
    Variant variant;
    variant.profile.precision = Precision::kFp8;
    variant.profile.fp8_recipe = variant.options.fp8.recipe = recipe.recipe;
    if (recipe.recipe == Fp8Recipe::kStatic) variant.options.input_scales = subject.Calibrate();
    variants.push_back(variant);
    variant.profile.kv_fp8 = true;
    variants.push_back(variant);
  }
  return variants;
}

std::string NameOf(const Variant& variant) {
  const kernels::PrecisionTraits& traits = kernels::Traits(variant.profile.precision);
  const bool fp8 = traits.precision == Precision::kFp8;
  return std::string("| ") + traits.name + (variant.profile.int8_inputs ? ", 8-bit inputs" : "") + " | " +
         (fp8 ? Traits(variant.profile.fp8_recipe).name : "") + " | " + Name(variant.profile.kv_dtype());
}

double NegativeLogLikelihood(const std::vector<float>& logits, TokenId token) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(token)]);
}

double Perplexity(const Subject& subject, const Variant& variant) {
  double sum = 0.0;
  size_t count = 0;
  subject.Score(variant, [&](const std::vector<TokenId>& window, const Rows& logits) {
    for (size_t i = 0; i + 1 < window.size(); ++i) sum += NegativeLogLikelihood(logits[i], window[i + 1]);
    count += window.size() - 1;
  });
  return std::exp(sum / static_cast<double>(count));
}

// exact: the perplexity to compare with; 0 takes that of the first variant. Returns it.
double PrintPerplexities(const Subject& subject, const std::vector<Variant>& variants, double exact) {
  for (const Variant& variant : variants) {
    const double value = Perplexity(subject, variant);
    if (exact == 0.0) exact = value;
    std::printf("%s | %.3f | %+.2f%% |\n", NameOf(variant).c_str(), value, 100.0 * (value / exact - 1.0));
    std::fflush(stdout);
  }
  return exact;
}

// Sums over all logits: error, the exact values, and rows whose most likely token is the same.
struct Errors {
  double error_squares = 0;
  double squares = 0;
  double dot = 0;
  double other_squares = 0;
  int64_t rows = 0;
  int64_t same_top = 0;

  void Add(const std::vector<float>& exact, const std::vector<float>& other) {
    for (size_t i = 0; i < exact.size(); ++i) {
      const double x = exact[i];
      const double y = other[i];
      error_squares += (x - y) * (x - y);
      squares += x * x;
      other_squares += y * y;
      dot += x * y;
    }
    const auto top = [](const std::vector<float>& row) {
      return std::max_element(row.begin(), row.end()) - row.begin();
    };
    same_top += top(exact) == top(other) ? 1 : 0;
    ++rows;
  }
};

// One for each variant, against the first, which is exact.
std::vector<Errors> ErrorsOf(const Subject& subject, const std::vector<Variant>& variants) {
  std::vector<Rows> exact;
  std::vector<Errors> all(variants.size());
  for (size_t v = 0; v < variants.size(); ++v) {
    size_t window_index = 0;
    subject.Score(variants[v], [&](const std::vector<TokenId>&, const Rows& logits) {
      if (v == 0) exact.push_back(logits);
      for (size_t i = 0; i < logits.size(); ++i) all[v].Add(exact[window_index][i], logits[i]);
      ++window_index;
    });
  }
  return all;
}

double Percent(const Errors& errors) {
  return 100.0 * std::sqrt(errors.error_squares / errors.squares);
}

void PrintLogitErrors(const Subject& subject) {
  std::printf(
      "| precision | recipe | KV | RMS error of logits | cosine | same top token |\n|---|---|---|---|---|---|\n");
  const std::vector<Variant> variants = Variants(subject);
  const std::vector<Errors> all = ErrorsOf(subject, variants);
  for (size_t v = 0; v < variants.size(); ++v) {
    const Errors& errors = all[v];
    std::printf("%s | %.3f%% | %.6f | %.1f%% |\n", NameOf(variants[v]).c_str(), Percent(errors),
                errors.dot / std::sqrt(errors.squares * errors.other_squares),
                100.0 * static_cast<double>(errors.same_top) / static_cast<double>(errors.rows));
  }
}

std::vector<TokenId> TokensOf(const std::string& path, const std::string& tokenizer_path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  DUNLIN_CHECK(!text.empty(), "no text in the file");
  const auto tokenizer = text::Tokenizer::Load(tokenizer_path, 0);
  DUNLIN_CHECK(tokenizer.ok(), "no tokenizer in the directory");
  text::EncodeOptions options;
  options.add_special_tokens = false;
  return *(*tokenizer)->Encode(text, options);
}

Windows WindowsOf(const std::vector<TokenId>& tokens, size_t length) {
  Windows windows;
  for (size_t first = 0; first < tokens.size(); first += length) {
    windows.emplace_back(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                         tokens.begin() + static_cast<std::ptrdiff_t>(std::min(tokens.size(), first + length)));
  }
  return windows;
}

Subject OnText(TestModel model, const std::vector<TokenId>& tokens) {
  const int32_t length = std::min(model.model->config().max_context - 1, kMaxWindow);
  return {std::move(model), WindowsOf(tokens, static_cast<size_t>(length))};
}

int RunDemo() {
  const std::string path = SourcePath("models/demo");
  const std::vector<TokenId> tokens = TokensOf(SourcePath("tests/golden/models/demo_heldout.txt"), path);
  const Subject subject = OnText(LoadTestModel(path, "", 2, kAllPrecisions), tokens);
  std::printf("| precision | recipe | KV | perplexity | against fp32 |\n|---|---|---|---|---|\n");
  const double exact = PrintPerplexities(subject, Variants(subject), 0.0);
  std::vector<Variant> rounded;
  for (const Precision precision : {Precision::kInt8, Precision::kInt4}) {
    rounded.emplace_back().profile.precision = precision;
    rounded.back().profile.int8_inputs = true;
  }
  PrintPerplexities(OnText(LoadTestModel(path, "", 2, {Precision::kInt8, Precision::kInt4}, true), tokens), rounded,
                    exact);
  return EXIT_SUCCESS;
}

// "int8,int4" as precisions; empty where a name is none.
std::vector<Precision> PrecisionsOf(const std::string& names) {
  std::vector<Precision> precisions;
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    const auto* row = kernels::FindByName(kernels::kPrecisionTable, std::string(name));
    if (row == nullptr) return {};
    precisions.push_back(row->precision);
  }
  return precisions;
}

int RunText(const std::string& file, const std::string& tokenizer, const std::vector<std::string>& models) {
  const std::vector<TokenId> tokens = TokensOf(file, tokenizer);
  for (const std::string& model : models) {
    const size_t split = model.rfind('=');
    const std::vector<Precision> precisions =
        split == std::string::npos ? std::vector<Precision>() : PrecisionsOf(model.substr(split + 1));
    if (precisions.empty()) {
      std::fprintf(stderr, "'%s' is not PATH=PRECISION,...\n", model.c_str());
      return 2;
    }
    const std::string path = model.substr(0, split);
    const Subject subject = OnText(LoadTestModel(path, "", 2, precisions), tokens);
    for (const Precision precision : precisions) {
      Variant variant;
      variant.profile.precision = precision;
      std::printf("%s\t%s\t%.4f\n", path.c_str(), kernels::Name(precision), Perplexity(subject, variant));
      std::fflush(stdout);
    }
  }
  return EXIT_SUCCESS;
}

Subject OnRandomTokens(TestModel model, size_t num_tokens) {
  std::mt19937 generator(1);
  std::uniform_int_distribution<TokenId> any(0, model.model->config().vocab_size - 1);
  Windows windows(1, std::vector<TokenId>(num_tokens));
  for (TokenId& token : windows[0]) token = any(generator);
  return {std::move(model), std::move(windows)};
}

int RunRandom(const std::string& shape, size_t num_tokens) {
  PrintLogitErrors(OnRandomTokens(LoadRandomModel(shape, 2, kAllPrecisions), num_tokens));
  return EXIT_SUCCESS;
}

int RunFamilies() {
  std::vector<Variant> variants(kAllPrecisions.size());
  std::printf("| model |");
  for (size_t v = 0; v < variants.size(); ++v) {
    variants[v].profile.precision = kAllPrecisions[v];
    if (v > 0) std::printf(" %s |", kernels::Name(kAllPrecisions[v]));
  }
  std::printf("\n|---|---|---|---|---|---|\n");
  for (const std::string& name : GoldenModelNames()) {
    TestModel model = LoadTestModel(GoldenModelPath(name), "", 2, kAllPrecisions);
    const auto num_tokens = static_cast<size_t>(std::min(64, model.model->config().max_context - 1));
    const std::vector<Errors> all = ErrorsOf(OnRandomTokens(std::move(model), num_tokens), variants);
    std::printf("| %s |", name.c_str());
    for (size_t v = 1; v < all.size(); ++v) std::printf(" %.2f |", Percent(all[v]));
    std::printf("\n");
    std::fflush(stdout);
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace dunlin::engine

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "demo") return dunlin::engine::RunDemo();
  if (argc == 2 && std::string(argv[1]) == "families") return dunlin::engine::RunFamilies();
  if (argc >= 5 && std::string(argv[1]) == "text") {
    return dunlin::engine::RunText(argv[2], argv[3], {argv + 4, argv + argc});
  }
  if (argc == 2 || argc == 3) {
    const long tokens = argc == 3 ? std::strtol(argv[2], nullptr, 10) : 64;
    if (tokens >= 1 && tokens <= 4096) return dunlin::engine::RunRandom(argv[1], static_cast<size_t>(tokens));
  }
  std::fprintf(stderr,
               "usage: precision_table demo | precision_table families | precision_table SHAPE [TOKENS, 1 to 4096] |\n"
               "       precision_table text FILE TOKENIZER PATH=PRECISION,...\n");
  return 2;
}
