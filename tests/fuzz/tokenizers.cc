// SPDX-License-Identifier: Apache-2.0
// The files that a tokenizer is built from, and texts and tokens of clients against one that is built. All of it goes
// through the C ABI of the Rust library.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "tests/fuzz/golden_tokenizer.h"
#include "tests/fuzz/input_bytes.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace dunlin::fuzz {
namespace {

constexpr int64_t kVocabLimit = 65536;

// Whatever a file has made of it, a tokenizer keeps the contract of its header.
void UseTokenizer(const text::Tokenizer& tokenizer) {
  DUNLIN_FUZZ_CHECK(tokenizer.vocab_size() >= 0, "a negative vocabulary");
  constexpr std::string_view kTexts[] = {"Hello there, bird 12  \n", "\xC3\xA9\xE6\x9D\xB1 \xF0\x9F\x90\xA6",
                                         "<s>a</s>"};
  for (const std::string_view text : kTexts) {
    (void)tokenizer.WidestPiece(text);
    const auto ids = tokenizer.Encode(text);
    if (!ids.ok()) continue;
    for (const engine::TokenId id : *ids) {
      DUNLIN_FUZZ_CHECK(id >= 0 && id < kVocabLimit, "a token that the model has no row for");
      (void)tokenizer.TokenText(id);
      (void)tokenizer.TokenBytes(id);
    }
    const auto decoded = tokenizer.Decode(*ids, false);
    DUNLIN_FUZZ_CHECK(decoded.ok() && text::IsValidUtf8(*decoded), "own tokens are no text");
  }
  (void)tokenizer.FindPairFrame();
  std::vector<engine::TokenId> ids;
  for (engine::TokenId id = 0; id < std::min<int64_t>(tokenizer.vocab_size(), 40); ++id) ids.push_back(id);
  const auto whole = tokenizer.Decode(ids, true);
  auto stream = text::StreamDecoder::Create(tokenizer);
  if (!whole.ok() || !stream.ok()) return;
  std::string text;
  for (const engine::TokenId id : ids) {
    const auto delta = stream->Push(id);
    DUNLIN_FUZZ_CHECK(delta.ok() && text::IsValidUtf8(*delta), "a delta is no text");
    text += *delta;
  }
  text += stream->Finish().value_or("");
  DUNLIN_FUZZ_CHECK(text == *whole, "deltas are not the whole text");
}

void LoadFrom(std::map<std::string, std::string, std::less<>> files) {
  const auto tokenizer = text::Tokenizer::Load(engine::MemoryFiles(std::move(files)), kVocabLimit);
  if (tokenizer.ok()) UseTokenizer(**tokenizer);
}

}  // namespace

// Input: tokenizer.json, tokenizer_config.json; 0xFF between them.
int FuzzTokenizerJson(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const std::string_view json = input.Part();
  const auto tokenizer = text::Tokenizer::FromJson(json, input.rest(), kVocabLimit);
  if (tokenizer.ok()) UseTokenizer(**tokenizer);
  return 0;
}

int FuzzSentencePiece(const uint8_t* data, size_t size) {
  LoadFrom({{text::kSentencePieceFile, std::string(TextOf(data, size))}});
  return 0;
}

// Input: tiktoken.model, tokenizer_config.json; 0xFF between them.
int FuzzTiktoken(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const std::string model(input.Part());
  LoadFrom({{text::kTiktokenFile, model}, {"tokenizer_config.json", std::string(input.rest())}});
  return 0;
}

// Input: vocabulary.json, as it is made from GGUF metadata.
int FuzzVocabulary(const uint8_t* data, size_t size) {
  LoadFrom({{text::kVocabularyFile, std::string(TextOf(data, size))}});
  return 0;
}

// Input: flags (1 byte), a client's text. Encoded and decoded it is the same text; as a stream of tokens, too.
int FuzzEncode(const uint8_t* data, size_t size) {
  const text::Tokenizer& tokenizer = GoldenTokenizer();
  InputBytes input(data, size);
  const uint8_t flags = input.Byte();
  text::EncodeOptions options;
  options.add_special_tokens = false;
  options.parse_special = (flags & 1) != 0;
  if ((flags & 2) != 0) options.max_tokens = flags >> 3;
  options.truncate = (flags & 4) != 0;
  const std::string_view text = input.rest();
  const auto ids = tokenizer.Encode(text, options);
  DUNLIN_FUZZ_CHECK(ids.ok() || !text::IsValidUtf8(text) || options.max_tokens != SIZE_MAX, "a text is refused");
  if (!ids.ok()) return 0;
  DUNLIN_FUZZ_CHECK(ids->size() <= options.max_tokens, "more tokens than were asked for");
  const auto decoded = tokenizer.Decode(*ids, false);
  DUNLIN_FUZZ_CHECK(decoded.ok(), "own tokens are no text");
  if (!options.truncate) DUNLIN_FUZZ_CHECK(*decoded == text, "the tokens are another text");
  return 0;
}

// Input: stop strings, the size of the first (1 byte) and so on up to a size of 0, then a text and how it is divided.
// The oracle looks for the stop strings in the whole text.
int FuzzStopMatcher(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  std::vector<std::string> stops;
  while (stops.size() < text::kMaxStopStrings + 1) {
    const uint32_t length = input.Below(16);
    if (length == 0) break;
    stops.emplace_back(input.Text(length));
  }
  const uint32_t piece = 1 + input.Below(8);
  auto matcher = text::StopMatcher::Create(stops);
  if (!matcher.ok()) return 0;
  const std::string_view text = input.rest();
  if (!text::IsValidUtf8(text)) return 0;
  size_t end = std::string_view::npos;  // of the match that ends first
  size_t begin = 0;
  for (const std::string& stop : stops) {
    const size_t found = text.find(stop);
    if (found == std::string_view::npos) continue;
    const size_t found_end = found + stop.size();
    if (end == std::string_view::npos || found_end < end || (found_end == end && found < begin)) {
      end = found_end;
      begin = found;
    }
  }
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t next = std::min(text.size(), at + piece);
    while (next < text.size() && (static_cast<uint8_t>(text[next]) & 0xC0) == 0x80) ++next;  // whole characters
    const auto result = matcher->Push(text.substr(at, next - at));
    DUNLIN_FUZZ_CHECK(text::IsValidUtf8(result.text), "a part of a character is returned");
    out += result.text;
    at = next;
  }
  out += matcher->Finish();
  DUNLIN_FUZZ_CHECK(matcher->matched() == (end != std::string_view::npos), "a stop string is not where it is");
  DUNLIN_FUZZ_CHECK(out == (matcher->matched() ? text.substr(0, begin) : text), "the text before it is another");
  return 0;
}

}  // namespace dunlin::fuzz
