// SPDX-License-Identifier: Apache-2.0
// main() of every test program. Alone, a program runs all of its tests and takes GoogleTest's flags. ctest calls it
// with --entry=NAME and --sources=PATH,PATH (below tests/): it runs the tests of these sources, and
// GTEST_OUTPUT=xml:FOLDER/ writes FOLDER/NAME.xml. The sources decide, so that a new test needs no list of names.
// Every test is in one entry: the program fails if a source that is named has no test, if two tests have one name,
// and if a test is in a source that is not called *_test.cc, which no entry names.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::string_view kTests = "/tests/";
constexpr std::string_view kEnding = "_test.cc";

struct Entry {
  std::string name;
  std::set<std::string, std::less<>> sources;  // empty: the whole program
};

// Takes the flags of this file off the list, for a death test starts the program again with what is left.
Entry TakeEntry(int* argc, char** argv) {
  Entry entry;
  int kept = 0;
  for (int i = 0; i < *argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.rfind("--entry=", 0) == 0) {
      entry.name = argument.substr(argument.find('=') + 1);
    } else if (argument.rfind("--sources=", 0) == 0) {
      for (size_t begin = argument.find('=') + 1; begin < argument.size();) {
        const size_t end = std::min(argument.find(',', begin), argument.size());
        entry.sources.emplace(argument.substr(begin, end - begin));
        begin = end + 1;
      }
    } else {
      argv[kept++] = argv[i];
    }
  }
  argv[*argc = kept] = nullptr;
  return entry;
}

// Below tests/, or as the compiler was told.
std::string_view SourceOf(const testing::TestInfo& test) {
  const std::string_view file = test.file();
  const size_t tests = file.rfind(kTests);
  return tests == std::string_view::npos ? file : file.substr(tests + kTests.size());
}

// The filter for an entry's tests. Adds to `errors` the tests that are in no entry, or in two.
std::string FilterOf(const Entry& entry, std::vector<std::string>* errors) {
  std::string filter;
  std::set<std::string> names;
  std::set<std::string, std::less<>> empty = entry.sources;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::string name = std::string(suite.name()) + "." + test.name();
      const std::string_view source = SourceOf(test);
      if (source.size() < kEnding.size() || source.substr(source.size() - kEnding.size()) != kEnding) {
        errors->push_back(name + " is in " + test.file() + "; tests are in sources named *_test.cc");
      }
      if (!names.insert(name).second) errors->push_back(name + " is the name of two tests");
      if (entry.sources.count(source) == 0) continue;
      filter += (filter.empty() ? "" : ":") + name;
      empty.erase(std::string(source));
    }
  }
  for (const std::string& source : empty) errors->push_back("no test is in " + source);
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  const Entry entry = TakeEntry(&argc, argv);
  const std::string output = GTEST_FLAG_GET(output);
  const bool is_folder = !output.empty() && output.back() == '/';
  if (is_folder && !entry.name.empty()) GTEST_FLAG_SET(output, output + entry.name + ".xml");
  testing::InitGoogleTest(&argc, argv);
  std::vector<std::string> errors;
  const std::string filter = FilterOf(entry, &errors);
  if (!entry.sources.empty() && GTEST_FLAG_GET(filter) != "*") {
    errors.push_back("--sources and --gtest_filter exclude each other");
  }
  for (const std::string& error : errors) std::cerr << error << "\n";
  if (!errors.empty()) return 1;
  if (!entry.sources.empty()) GTEST_FLAG_SET(filter, filter);
  return RUN_ALL_TESTS();
}
