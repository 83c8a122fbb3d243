// Lines, CSV records and texts: what becomes a text, and which line it belongs to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/csv_reader.h"
#include "cli/line_reader.h"
#include "cli/text_reader.h"

namespace sprat::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file with this content for the length of a test.
class Files : public ::testing::Test {
 protected:
  Files() {
    std::string name = (std::filesystem::temp_directory_path() / "sprat_cli_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, std::string_view content) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

  std::filesystem::path folder_;
};

class Lines : public Files {
 protected:
  std::vector<std::string> Read(std::string_view content, size_t limit = kMaxLineBytes) {
    Result<InputFile> file = InputFile::Open(Write("lines.txt", content));
    LineReader reader(std::move(file).value(), limit);
    std::vector<std::string> lines;
    while (true) {
      Result<std::optional<std::string_view>> line = reader.Next();
      if (!line.ok()) {
        error_ = line.error().message();
        return lines;
      }
      if (!line.value()) return lines;
      lines.emplace_back(*line.value());
      EXPECT_EQ(reader.number(), lines.size());
    }
  }
  std::string error_;
};

TEST_F(Lines, B117BlankLineIsALine) {
  EXPECT_THAT(Read("good\n\nmorning"), ElementsAre("good", "", "morning"));
}

TEST_F(Lines, B117CarriageReturnBelongsToTheLineEnd) {
  EXPECT_THAT(Read("good\r\n\r\nmorning\r\n"), ElementsAre("good", "", "morning"));
  EXPECT_THAT(Read("good\r\n\r\nmorning\r"), ElementsAre("good", "", "morning"));
}

TEST_F(Lines, B117ByteOrderMarkIsNotText) {
  EXPECT_THAT(Read("\xEF\xBB\xBFgood\n\nmorning"), ElementsAre("good", "", "morning"));
  EXPECT_THAT(Read("\xEF\xBB\xBF"), ElementsAre());
  EXPECT_THAT(Read("a\n\xEF\xBB\xBF"
                   "b"),
              ElementsAre("a",
                          "\xEF\xBB\xBF"
                          "b"));
}

TEST_F(Lines, ALineFeedEndsALineAndStartsNone) {
  EXPECT_THAT(Read(""), ElementsAre());
  EXPECT_THAT(Read("\n"), ElementsAre(""));
  EXPECT_THAT(Read("a\n"), ElementsAre("a"));
  EXPECT_THAT(Read("a\rb\n"), ElementsAre("a\rb"));
}

TEST_F(Lines, LongLinesCrossBlocks) {
  const std::string longer(200'000, 'x');  // 64 KB a block
  EXPECT_THAT(Read(longer + "\ny\n" + longer), ElementsAre(longer, "y", longer));
}

TEST_F(Lines, TheLimitCountsTheLineEndAndNamesTheLine) {
  EXPECT_THAT(Read("ab\n1234567\n", 8), ElementsAre("ab", "1234567"));
  EXPECT_EQ(error_, "");
  EXPECT_THAT(Read("ab\n12345678\n", 8), ElementsAre("ab"));
  EXPECT_THAT(error_, HasSubstr("lines.txt: line 2: longer than 8 bytes"));
}

TEST_F(Lines, NotUtf8NamesLineAndByte) {
  EXPECT_THAT(Read("ab\ncd\xFF"
                   "e\n"),
              ElementsAre("ab"));
  EXPECT_THAT(error_, HasSubstr("lines.txt: line 2, byte 3: 0xff is not UTF-8"));
  Read("\xC3\xA9\xED\xA0\x80\n");  // e acute, then a surrogate
  EXPECT_THAT(error_, HasSubstr("line 1, byte 3: 0xed is not UTF-8"));
  Read("\xF0\x9F\x98");  // cut off
  EXPECT_THAT(error_, HasSubstr("line 1, byte 1: 0xf0 is not UTF-8"));
  Read(std::string_view("\xFF\xFEg\0o\0", 6));
  EXPECT_THAT(error_, HasSubstr("line 1, byte 1: 0xff is not UTF-8; the file looks like UTF-16"));
}

class Csv : public Files {
 protected:
  std::vector<std::vector<std::string>> Read(std::string_view content) {
    Result<InputFile> file = InputFile::Open(Write("table.csv", content));
    CsvReader reader(std::move(file).value(), 64);
    std::vector<std::vector<std::string>> records;
    starts_.clear();
    while (true) {
      Result<std::optional<std::span<const std::string>>> record = reader.Next();
      if (!record.ok()) {
        error_ = record.error().message();
        return records;
      }
      if (!record.value()) return records;
      records.emplace_back(record.value()->begin(), record.value()->end());
      starts_.push_back(reader.number());
    }
  }
  std::vector<size_t> starts_;
  std::string error_;
};

TEST_F(Csv, FieldsAndRecords) {
  EXPECT_THAT(Read("a,b\r\n1,\n,2"),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("1", ""), ElementsAre("", "2")));
}

TEST_F(Csv, QuotedFieldsHoldCommasQuotesAndLineEnds) {
  EXPECT_THAT(Read("a,\"x, \"\"y\"\"\r\nz\"\r\nb,c\n"),
              ElementsAre(ElementsAre("a", "x, \"y\"\r\nz"), ElementsAre("b", "c")));
  EXPECT_THAT(starts_, ElementsAre(1, 3));
  EXPECT_THAT(Read("\"\",\"\"\n"), ElementsAre(ElementsAre("", "")));
}

TEST_F(Csv, AQuoteInsideAPlainFieldIsItself) {
  EXPECT_THAT(Read("5\" disk,b\n"), ElementsAre(ElementsAre("5\" disk", "b")));
}

TEST_F(Csv, FaultsNameTheLine) {
  EXPECT_THAT(Read("a\n\"x\ny"), ElementsAre(ElementsAre("a")));
  EXPECT_THAT(error_, HasSubstr("table.csv: line 2: a quote is opened and never closed"));
  Read("a\n\"x\" y\n");
  EXPECT_THAT(error_, HasSubstr("table.csv: line 2: after a closing quote"));
  Read("a\n\"" + std::string(40, 'x') + "\n" + std::string(40, 'y') + "\n\"\n");
  EXPECT_THAT(error_, HasSubstr("table.csv: line 2: a quoted field is longer than 64 bytes"));
}

class Texts : public Files {
 protected:
  std::vector<std::string> Read(TextSource source) {
    error_.clear();
    places_.clear();
    Result<TextReader> reader = TextReader::Open(source);
    std::vector<std::string> texts;
    if (!reader.ok()) {
      error_ = reader.error().message();
      return texts;
    }
    while (true) {
      Result<std::optional<std::string_view>> text = reader.value().Next();
      if (!text.ok()) {
        error_ = text.error().message();
        return texts;
      }
      if (!text.value()) return texts;
      texts.emplace_back(*text.value());
      places_.push_back(reader.value().place().line);
    }
  }
  std::vector<std::string> Read(std::string_view format, std::string_view content) {
    return Read({.paths = {Write("in", content)}, .format = std::string(format)});
  }
  std::vector<size_t> places_;
  std::string error_;
};

TEST_F(Texts, JsonLinesAreStringsOrObjects) {
  EXPECT_THAT(Read("jsonl", "\"a\\nb\"\n{\"id\": 7, \"text\": \"\\u00e9\"}\r\n\"\"\n"),
              ElementsAre("a\nb", "\xC3\xA9", ""));
  EXPECT_EQ(error_, "");
}

TEST_F(Texts, JsonFaultsNameTheLine) {
  EXPECT_THAT(Read("jsonl", "\"a\"\n\n\"b\"\n"), ElementsAre("a"));
  EXPECT_THAT(error_, HasSubstr("in: line 2: blank"));
  Read("jsonl", "{\"a\": 1\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: not JSON: "));
  Read("jsonl", "\"a\" \"b\"\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: not JSON: "));
  Read("jsonl", "[\"a\"]\n");
  EXPECT_THAT(error_,
              HasSubstr("in: line 1: each line must be a JSON string or an object, found an "
                        "array, [\"a\"]"));
  Read("jsonl", "\"a\"\n5\n");
  EXPECT_THAT(error_, HasSubstr("in: line 2: each line must be a JSON string or an object, found a "
                                "number, 5"));
  Read("jsonl", "null\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: each line must be a JSON string or an object, found "
                                "null"));
  Read("jsonl", "{\"id\": 1, \"body\": \"b\"}\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: no member 'text' (--text-field); the object has: "
                                "id, body"));
  Read("jsonl", "{\"text\": \"a\", \"id\": 1, \"text\": \"b\"}\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: the object has the member 'text' 2 times, expected "
                                "once"));
  Read("jsonl", "{\"text\": null}\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: the member 'text' must be a string, found null"));
  Read("jsonl", "{\"text\": 2.5}\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: the member 'text' must be a string, found a number, "
                                "2.5"));
  Read("jsonl", "{\"text\": {\"b\": true}}\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: the member 'text' must be a string, found an object, "
                                "{\"b\":true}"));
  Read("jsonl", "\"\\ud800\"\n");
  EXPECT_THAT(error_, HasSubstr("in: line 1: not JSON: "));
}

TEST_F(Texts, CsvTakesTheNamedColumn) {
  const std::string path = Write("t.csv", "id,title\n1,\"One, two\"\n\n2,\n");
  EXPECT_THAT(Read({.paths = {path}, .format = "csv", .text_field = "title"}),
              ElementsAre("One, two", ""));
  EXPECT_THAT(places_, ElementsAre(2, 4));
  Read({.paths = {path}, .format = "csv"});
  EXPECT_THAT(error_, HasSubstr("t.csv: line 1: no column 'text' (--text-field) in the header; its "
                                "columns: id, title"));
}

TEST_F(Texts, CsvRefusesAHeaderThatNamesTheColumnTwice) {
  EXPECT_THAT(Read("csv", "text,id,text\na,1,b\n"), ElementsAre());
  EXPECT_EQ(error_, (folder_ / "in").string() +
                        ": line 1: the header has the column 'text' more than once; its columns: "
                        "text, id, text");
  EXPECT_THAT(Read("csv", "id,text,id\n1,a,2\n"), ElementsAre("a"));
}

TEST_F(Texts, APipeIsOpenedOnce) {
  const std::string first = (folder_ / "first").string();
  const std::string second = (folder_ / "second").string();
  ASSERT_EQ(mkfifo(first.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(second.c_str(), 0600), 0);
  // The writer opens the second only once the first, more than a pipe's buffer, has been read.
  const std::string text(200'000, 'a');
  const pid_t writer = fork();
  if (writer == 0) {
    alarm(60);
    std::ofstream(first) << text << "\nb\n";
    std::ofstream(second) << "c\n";
    _exit(0);
  }
  alarm(60);  // rather than to wait for a writer that has gone
  EXPECT_THAT(Read({.paths = {first, second}}), ElementsAre(text, "b", "c"));
  alarm(0);
  EXPECT_EQ(error_, "");
  int status = -1;
  waitpid(writer, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Texts, CsvBlankLineOfTheOnlyColumnIsAText) {
  EXPECT_THAT(Read("csv", "text\na\n\nb\n"), ElementsAre("a", "", "b"));
}

TEST_F(Texts, CsvRecordsHaveTheFieldsOfTheHeader) {
  EXPECT_THAT(Read("csv", "id,text\n1,a\n2,b, c\n"), ElementsAre("a"));
  EXPECT_THAT(error_, HasSubstr("in: line 3: 3 fields, the header has 2"));
}

TEST_F(Texts, FilesFollowEachOther) {
  const std::string a = Write("a.txt", "1\n2");
  const std::string b = Write("b.txt",
                              "\xEF\xBB\xBF"
                              "3\n");
  EXPECT_THAT(Read({.paths = {a, b}}), ElementsAre("1", "2", "3"));
  EXPECT_THAT(places_, ElementsAre(1, 2, 1));
}

TEST_F(Texts, AFileWithoutATextIsAnError) {
  Read("lines", "");
  EXPECT_THAT(error_, HasSubstr("in: empty, there is no text"));
  Read("csv", "");
  EXPECT_THAT(error_, HasSubstr("in: empty, there is no text"));
  Read("csv", "text\n");
  EXPECT_THAT(error_, HasSubstr("in: nothing but a header"));
  EXPECT_THAT(Read({.paths = {Write("in", "")}, .may_be_empty = true}), ElementsAre());
  EXPECT_EQ(error_, "");
}

TEST_F(Texts, AFileThatCannotBeReadIsKnownBeforeAnyIsRead) {
  const std::string a = Write("a.txt", "1\n");
  EXPECT_THAT(Read({.paths = {a, "/nonexistent/b.txt"}}), ElementsAre());
  EXPECT_EQ(error_, "/nonexistent/b.txt: cannot open: No such file or directory");
  EXPECT_THAT(Read({.paths = {folder_.string()}}), ElementsAre());
  EXPECT_THAT(error_, HasSubstr(": a directory; expected a file of texts"));
}

TEST_F(Texts, ChunksAreBoundedByTextsAndBytes) {
  Result<TextReader> reader =
      TextReader::Open({.paths = {Write("in", "a\nb\nc\n" + std::string(10, 'd') + "\ne\n")}});
  TextChunk chunk;
  ASSERT_TRUE(reader.value().Fill(2, 100, chunk).ok());
  EXPECT_THAT(chunk.texts, ElementsAre("a", "b"));
  ASSERT_TRUE(reader.value().Fill(9, 8, chunk).ok());
  EXPECT_THAT(chunk.texts, ElementsAre("c", "dddddddddd"));
  EXPECT_EQ(chunk.places[1].line, 4u);
  ASSERT_TRUE(reader.value().Fill(9, 8, chunk).ok());
  EXPECT_THAT(chunk.texts, ElementsAre("e"));
  ASSERT_TRUE(reader.value().Fill(9, 8, chunk).ok());
  EXPECT_TRUE(chunk.texts.empty());
}

}  // namespace
}  // namespace sprat::cli
