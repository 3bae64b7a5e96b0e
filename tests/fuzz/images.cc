// SPDX-License-Identifier: Apache-2.0
// Files of images from clients, and the files that say what a model does with them.
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/fuzz/golden_tokenizer.h"
#include "tests/fuzz/input_bytes.h"
#include "tests/text/images/png_chunks.h"
#include "text/images/image.h"
#include "text/images/image_processor.h"

namespace dunlin::fuzz {
namespace {

// Decoding a whole one of so many pixels takes some ms with sanitizers.
constexpr text::ImageLimits kFuzzLimits = {.max_pixels = 1 << 18};

bool HasItsPixels(const text::Image& image) {
  const auto pixels = static_cast<size_t>(image.size.width) * static_cast<size_t>(image.size.height);
  return image.rgb.size() == pixels * text::kImageChannels;
}

const std::vector<std::string>& GoldenFiles() {
  static const auto* files = [] {
    auto* read = new std::vector<std::string>;
    for (const auto& row : nlohmann::json::parse(ReadTreeFile("tests/golden/images/decode.json"))) {
      DUNLIN_FUZZ_CHECK(absl::Base64Unescape(row["file"].get<std::string>(), &read->emplace_back()), "base64");
    }
    return read;
  }();
  return *files;
}

// A PNG file with the checksums that its chunks should have; what is behind a chunk that is longer than the file stays.
std::string WithChecksums(std::string file) {
  if (!file.starts_with("\x89PNG")) return file;
  for (size_t at = 8; at + 12 <= file.size();) {
    InputBytes head(reinterpret_cast<const uint8_t*>(file.data()) + at, 4);
    size_t length = 0;
    while (!head.empty()) length = length << 8 | head.Byte();
    if (length > file.size() - at - 12) break;
    file.replace(at + 8 + length, 4,
                 text::BigEndian(text::PngChecksum(std::string_view(file).substr(at + 4, 4 + length))));
    at += 12 + length;
  }
  return file;
}

// A golden file with bytes changed: the place (2 bytes) and the value (1) of each.
std::string ChangedGolden(size_t index, InputBytes* input) {
  std::string file = GoldenFiles()[index % GoldenFiles().size()];
  while (!input->empty()) {
    size_t place = size_t{input->Byte()} << 8;
    place |= input->Byte();
    file[place % file.size()] = static_cast<char>(input->Byte());
  }
  return WithChecksums(std::move(file));
}

// Whatever the files ask for, the grid is what the patches have, and each patch has a place of its own in it.
void UseProcessor(const text::ImageProcessor& processor, const text::Image& image) {
  const auto grid = text::GridOf(processor, image.size);
  if (!grid.ok()) return;
  DUNLIN_FUZZ_CHECK(grid->num_patches() > 0, "a grid without patches");
  DUNLIN_FUZZ_CHECK(grid->rows % processor.merge_size == 0 && grid->columns % processor.merge_size == 0,
                    "a grid that is not of whole squares");
  const text::PatchPlace last = text::PlaceOf(*grid, processor.merge_size, grid->num_patches() - 1);
  DUNLIN_FUZZ_CHECK(last.row == grid->rows - 1 && last.column == grid->columns - 1,
                    "the last patch is not in the corner");
  const int64_t patch_pixels = int64_t{processor.patch_size} * processor.patch_size;
  if (grid->num_patches() * patch_pixels > kFuzzLimits.max_pixels) return;
  const auto patches = text::MakePatches(processor, image);
  DUNLIN_FUZZ_CHECK(patches.ok() && patches->grid == *grid, "a grid that has no patches");
  DUNLIN_FUZZ_CHECK(patches->values.size() == static_cast<size_t>(grid->num_patches() * patch_pixels) * 3,
                    "patches of another size");
}

}  // namespace

// Input: 0, and a file; or the number of a golden one, and what is changed in it, since few changes of a whole file
// leave it one that is decoded. Its header says what size its pixels have.
int FuzzImage(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const uint8_t golden = input.Byte();
  const std::string file = golden == 0 ? std::string(input.rest()) : ChangedGolden(golden - 1, &input);
  const auto read = text::ReadImageSize(file, kFuzzLimits);
  const auto image = text::DecodeImage(file, kFuzzLimits);
  DUNLIN_FUZZ_CHECK(read.ok() || read.status() == image.status(), "refused in two ways");
  for (const absl::Status& status : {read.status(), image.status()}) {
    DUNLIN_FUZZ_CHECK(status.ok() || absl::IsInvalidArgument(status), status.ToString());
  }
  if (!image.ok()) return 0;
  DUNLIN_FUZZ_CHECK(*read == image->size && HasItsPixels(*image), "the header tells another size");
  const int64_t pixels = int64_t{read->width} * read->height;
  DUNLIN_FUZZ_CHECK(pixels > 0 && pixels <= kFuzzLimits.max_pixels, "more pixels than the limit");
  DUNLIN_FUZZ_CHECK(!text::ReadImageSize(file, {.max_pixels = pixels - 1}).ok(), "a limit that is none");
  return 0;
}

// Input: the size of an image (2 bytes), preprocessor_config.json, processor_config.json; 0xFF between them.
int FuzzImageProcessor(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  text::Image image;
  image.size.width = 1 + input.Byte();
  image.size.height = 1 + input.Byte();
  image.rgb.resize(static_cast<size_t>(image.size.width) * static_cast<size_t>(image.size.height) *
                   text::kImageChannels);
  const std::string own(input.Part());
  std::map<std::string, std::string, std::less<>> files = {{"preprocessor_config.json", own}};
  if (!input.empty()) files["processor_config.json"] = input.rest();
  const auto processor = text::LoadImageProcessor(engine::MemoryFiles(std::move(files)));
  if (processor.ok()) UseProcessor(*processor, image);
  return 0;
}

}  // namespace dunlin::fuzz
