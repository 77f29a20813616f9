// SPDX-License-Identifier: Apache-2.0
//
// The lines of an answer, and which languages there are.
#include "guest/interpreter/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <boost/json.hpp>

#include "guest/interpreter/kernels.h"
#include "guest/interpreter/languages.h"

namespace atl::guest::interpreter {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;
using ::testing::HasSubstr;

json::object parsed(const std::string& line) {
  EXPECT_EQ(line.back(), '\n');
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  for (char c : line) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  return json::parse(line).as_object();
}

TEST(Lines, AreAsciiWhateverTheTextIs) {
  std::string text = "a\"\\\n\x01ü漢🙂";
  EXPECT_EQ(parsed(output_line("stdout", text))["text"].as_string(), text);
  EXPECT_EQ(parsed(output_line("stderr", "bad \xff end"))["text"].as_string(), "bad \uFFFD end");
  auto error = parsed(error_line("Näme", "v", "t\nt"));
  EXPECT_EQ(error["name"].as_string(), "Näme");
  EXPECT_EQ(error["traceback"].as_string(), "t\nt");
}

TEST(Lines, GiveEachMimeTypeItsField) {
  json::object bundle{{"text/plain", "'quoted'"},
                      {"image/png", "cG5n"},
                      {std::string(kDataType), json::object{{"a", 1}}},
                      {"x/y", "z"}};
  auto line = parsed(result_line(bundle, true));
  EXPECT_EQ(line["type"], "result");
  EXPECT_EQ(line["text"], "quoted");
  EXPECT_EQ(line["png"], "cG5n");
  EXPECT_EQ(line["data"].at("a"), 1);
  EXPECT_EQ(line["extra"].at("x/y"), "z");
  EXPECT_EQ(line["is_main_result"], true);
  EXPECT_EQ(parsed(result_line({{"text/plain", "'"}}, false))["text"], "'");
}

TEST(Lines, CutTextOnlyBetweenCharacters) {
  std::string text = "aü漢🙂z";
  for (std::size_t step = 1; step < text.size(); ++step) {
    Utf8Pieces pieces;
    std::string all;
    for (std::size_t at = 0; at < text.size(); at += step) {
      std::string piece = pieces.take(std::string_view(text).substr(at, step));
      EXPECT_EQ(parsed(output_line("stdout", piece))["text"].as_string(), piece);
      all += piece;
    }
    EXPECT_EQ(all + pieces.rest(), text);
  }
  Utf8Pieces broken;
  EXPECT_EQ(broken.take("a\xe6"), "a");
  EXPECT_EQ(broken.rest(), "\xe6");
}

class Languages : public ::testing::Test {
 protected:
  Languages() {
    char name[] = "/tmp/atoll-languages-test-XXXXXX";
    root_ = ::mkdtemp(name);
    places_.ours = "/ours";
    places_.root = root_;
    places_.specs = {root_ + "/specs"};
  }
  ~Languages() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    ::chmod((root_ + path).c_str(), 0755);
  }
  std::string root_;
  KernelPlaces places_;
};

TEST_F(Languages, HaveOneNameEach) {
  EXPECT_EQ(language_name(""), "python");
  EXPECT_EQ(language_name(" JS "), "javascript");
  EXPECT_EQ(language_name("ts"), "typescript");
  EXPECT_EQ(language_name("Ocaml"), "ocaml");
}

TEST_F(Languages, AreThereWhenTheirProgramIs) {
  put("/bin/bash", "");
  auto bash = find_kernel(places_, "bash");
  ASSERT_TRUE(bash.ok());
  EXPECT_EQ(bash->speech, Speech::kFields);
  EXPECT_EQ(bash->command[1], "/ours/bash_kernel.sh");
  auto python = find_kernel(places_, "python");
  ASSERT_FALSE(python.ok());
  EXPECT_THAT(python.error().message(), HasSubstr("there are: bash"));
}

TEST_F(Languages, ComeFromKernelSpecificationsToo) {
  put("/specs/ocaml-jupyter/kernel.json",
      R"({"argv":["ocaml","{connection_file}"],"language":"OCaml","env":{"A":"1"}})");
  put("/specs/broken/kernel.json", "{");
  auto kernel = find_kernel(places_, "ocaml");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  EXPECT_EQ(kernel->speech, Speech::kJupyter);
  EXPECT_EQ(kernel->environment.at("A"), "1");
  EXPECT_TRUE(find_kernel(places_, "ocaml-jupyter").ok());
}

TEST_F(Languages, KernelProgramsAreCarriedWhole) {
  ASSERT_TRUE(unpack_kernels(root_ + "/out").ok());
  for (const KernelFile& file : kernel_files()) {
    std::ifstream in(root_ + "/out/" + std::string(file.name));
    std::string text{std::istreambuf_iterator<char>(in), {}};
    EXPECT_EQ(text, file.text) << file.name;
    EXPECT_FALSE(text.empty());
  }
  EXPECT_TRUE(fs::exists(root_ + "/out/python_kernel.py"));
}

}  // namespace
}  // namespace atl::guest::interpreter
