// SPDX-License-Identifier: Apache-2.0
// The inputs that every target is known by: those of corpus/<target>/ and seeds that are made of the goldens and of
// messages in text form. Pure but for reading the tree.
//
// Files of corpus/: NAME.txt is an input as it is; NAME.esc one in text, where \n, \t, \\ and \xNN stand for bytes and
// a line's end for nothing. A file crash_* is an input that broke something once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dunlin::fuzz {

struct CorpusInput {
  std::string name;
  std::string bytes;
};

std::vector<CorpusInput> CorpusOf(std::string_view target);

// The parts of it.
std::vector<CorpusInput> CorpusFiles(std::string_view target);
std::vector<CorpusInput> GoldenSeeds(std::string_view target);
std::vector<CorpusInput> MessageSeeds(std::string_view target);

// The bytes that an .esc file stands for.
std::string Unescaped(std::string_view text);

}  // namespace dunlin::fuzz
