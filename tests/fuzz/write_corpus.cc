// SPDX-License-Identifier: Apache-2.0
// write_corpus TARGET FOLDER: writes the target's inputs as files, for libFuzzer.
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/fuzz/corpus.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: write_corpus TARGET FOLDER\n");
    return 2;
  }
  size_t number = 0;
  for (const dunlin::fuzz::CorpusInput& input : dunlin::fuzz::CorpusOf(argv[1])) {
    std::ofstream file(std::string(argv[2]) + "/seed_" + std::to_string(number++), std::ios::binary);
    file.write(input.bytes.data(), static_cast<std::streamsize>(input.bytes.size()));
    if (!file.flush()) return 1;
  }
  return number == 0 ? 1 : 0;
}
