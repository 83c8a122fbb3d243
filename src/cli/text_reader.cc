#include "cli/text_reader.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "cli/csv_reader.h"
#include "cli/line_reader.h"
#include "cli/utf8.h"

namespace sprat::cli {

using Text = std::optional<std::string_view>;

namespace {

// Whether `path` is a pipe or a device that may be read. Opening it to see whether it opens would
// make its writer's bytes go to nobody, and of several pipes the second may get its writer only
// once the first has been read.
bool OpensOnce(const std::string& path) {
  struct stat status = {};
  return path != "-" && stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISDIR(status.st_mode) && access(path.c_str(), R_OK) == 0;
}

// "a number, 5": what a JSON value is that is not what was expected, shortened.
std::string Found(const simdjson::dom::element& value) {
  constexpr size_t kShownCharacters{40};
  const std::string text = Shorten(Printable(simdjson::to_string(value)), kShownCharacters);
  switch (value.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    case simdjson::dom::element_type::BOOL:
      return text;
    case simdjson::dom::element_type::ARRAY:
      return "an array, " + text;
    case simdjson::dom::element_type::OBJECT:
      return "an object, " + text;
    case simdjson::dom::element_type::STRING:
      return "a string, " + text;
    default:
      return "a number, " + text;
  }
}

}  // namespace

class TextReader::Impl {
 public:
  explicit Impl(TextSource source) : source_(std::move(source)) {
    if (source_.paths.empty()) source_.paths.emplace_back("-");
  }

  Result<void> OpenAll();
  Result<Text> Next();
  TextPlace place() const { return {.file = at_, .line = line_}; }
  std::string Describe(const TextPlace& place) const {
    return fmt::format("{}: line {}", files_[place.file].name, place.line);
  }
  std::optional<double> fraction() const;

 private:
  struct Known {
    std::string name;
    std::optional<uint64_t> size_bytes;
  };

  Result<void> StartFile();
  Result<Text> NextOfFile();
  Result<Text> NextJson(LineReader& lines);
  Result<Text> NextCsv(CsvReader& csv);
  Result<void> ReadHeader(CsvReader& csv);
  const LineReader& lines() const {
    const auto* csv = std::get_if<CsvReader>(&*reader_);
    return csv != nullptr ? csv->lines() : std::get<LineReader>(*reader_);
  }
  Error Bad(std::string_view what) const {
    return Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", Describe(place()), what));
  }

  TextSource source_;
  std::vector<Known> files_;
  size_t at_ = 0;              // the file being read
  size_t line_ = 0;            // of the text returned last
  uint64_t bytes_before_ = 0;  // of the files already read
  bool any_text_ = false;      // the file being read has yielded a text
  std::optional<std::variant<LineReader, CsvReader>> reader_;
  simdjson::dom::parser json_{kMaxLineBytes + simdjson::SIMDJSON_PADDING};
  size_t columns_ = 0;  // of the CSV header
  size_t column_ = 0;   // of them the one that holds the texts
};

Result<void> TextReader::Impl::OpenAll() {
  for (const std::string& path : source_.paths) {
    if (OpensOnce(path)) {
      files_.push_back({.name = path, .size_bytes = {}});
      continue;
    }
    Result<InputFile> file = InputFile::Open(path);
    if (!file.ok()) return std::move(file.error());
    files_.push_back({.name = file.value().name(), .size_bytes = file.value().size_bytes()});
  }
  return {};
}

Result<void> TextReader::Impl::StartFile() {
  Result<InputFile> file = InputFile::Open(source_.paths[at_]);
  if (!file.ok()) return std::move(file.error());
  any_text_ = false;
  if (source_.format != "csv") {
    reader_.emplace(std::in_place_type<LineReader>, std::move(file).value());
    return {};
  }
  reader_.emplace(std::in_place_type<CsvReader>, std::move(file).value());
  return ReadHeader(std::get<CsvReader>(*reader_));
}

Result<void> TextReader::Impl::ReadHeader(CsvReader& csv) {
  columns_ = column_ = 0;
  Result<std::optional<std::span<const std::string>>> header = csv.Next();
  if (!header.ok()) return std::move(header.error());
  if (!header.value()) return {};  // an empty file: reported as one without a text
  const std::span<const std::string> names = *header.value();
  columns_ = names.size();
  column_ = static_cast<size_t>(std::find(names.begin(), names.end(), source_.text_field) -
                                names.begin());
  line_ = csv.number();
  if (std::count(names.begin(), names.end(), source_.text_field) > 1) {
    return Bad(fmt::format("the header has the column '{}' more than once; its columns: {}",
                           source_.text_field, fmt::join(names, ", ")));
  }
  if (column_ < columns_) return {};
  return Bad(fmt::format("no column '{}' (--text-field) in the header; its columns: {}",
                         source_.text_field, fmt::join(names, ", ")));
}

Result<Text> TextReader::Impl::NextCsv(CsvReader& csv) {
  if (columns_ == 0) return Text();
  while (true) {
    Result<std::optional<std::span<const std::string>>> record = csv.Next();
    if (!record.ok()) return std::move(record.error());
    if (!record.value()) return Text();
    const std::span<const std::string> fields = *record.value();
    line_ = csv.number();
    if (fields.size() == columns_) return Text(fields[column_]);
    if (fields.size() == 1 && fields[0].empty()) continue;
    return Bad(fmt::format("{} fields, the header has {} (a field that holds a comma is quoted)",
                           fields.size(), columns_));
  }
}

Result<Text> TextReader::Impl::NextJson(LineReader& lines) {
  Result<Text> line = lines.Next();
  if (!line.ok() || !line.value()) return line;
  line_ = lines.number();
  if (line.value()->find_first_not_of(" \t") == std::string_view::npos) {
    return Bad("blank; each line must be a JSON string or an object");
  }
  simdjson::dom::element value;
  if (const auto fault = json_.parse(line.value()->data(), line.value()->size()).get(value)) {
    return Bad(fmt::format("not JSON: {}", simdjson::error_message(fault)));
  }
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return Text(text);
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) {
    return Bad(fmt::format("each line must be a JSON string or an object, found {}", Found(value)));
  }
  simdjson::dom::element member;
  size_t found = 0;
  for (const auto& field : object) {
    if (field.key == source_.text_field && found++ == 0) member = field.value;
  }
  if (found > 1) {
    return Bad(fmt::format("the object has the member '{}' {} times, expected once",
                           source_.text_field, found));
  }
  if (found == 0) {
    std::vector<std::string_view> names;
    for (const auto& field : object) names.push_back(field.key);
    return Bad(fmt::format("no member '{}' (--text-field); the object has: {}", source_.text_field,
                           fmt::join(names, ", ")));
  }
  if (member.get(text) != simdjson::SUCCESS) {
    return Bad(fmt::format("the member '{}' must be a string, found {}", source_.text_field,
                           Found(member)));
  }
  return Text(text);
}

Result<Text> TextReader::Impl::NextOfFile() {
  if (auto* csv = std::get_if<CsvReader>(&*reader_)) return NextCsv(*csv);
  auto& lines = std::get<LineReader>(*reader_);
  if (source_.format == "jsonl") return NextJson(lines);
  Result<Text> line = lines.Next();
  line_ = lines.number();
  return line;
}

Result<Text> TextReader::Impl::Next() {
  while (at_ < files_.size()) {
    if (!reader_) {
      if (Result<void> started = StartFile(); !started.ok()) return std::move(started.error());
    }
    Result<Text> text = NextOfFile();
    if (!text.ok()) return text;
    if (text.value()) {
      any_text_ = true;
      return text;
    }
    if (!any_text_ && !source_.may_be_empty) {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("{}: {}", files_[at_].name,
                               columns_ > 0 ? "nothing but a header, there is no text to embed"
                                            : "empty, there is no text to embed"));
    }
    bytes_before_ += lines().bytes_read();
    reader_.reset();
    ++at_;
  }
  return Text();
}

std::optional<double> TextReader::Impl::fraction() const {
  uint64_t total = 0;
  for (const Known& file : files_) {
    if (!file.size_bytes) return {};
    total += *file.size_bytes;
  }
  if (total == 0) return {};
  const uint64_t done = bytes_before_ + (reader_ ? lines().bytes_read() : 0);
  return static_cast<double>(done) / static_cast<double>(total);
}

TextReader::TextReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TextReader::TextReader(TextReader&&) noexcept = default;
TextReader& TextReader::operator=(TextReader&&) noexcept = default;
TextReader::~TextReader() = default;

Result<TextReader> TextReader::Open(const TextSource& source) {
  auto impl = std::make_unique<Impl>(source);
  if (Result<void> opened = impl->OpenAll(); !opened.ok()) return std::move(opened.error());
  return TextReader(std::move(impl));
}

Result<Text> TextReader::Next() { return impl_->Next(); }
TextPlace TextReader::place() const { return impl_->place(); }
std::string TextReader::Describe(const TextPlace& place) const { return impl_->Describe(place); }
std::optional<double> TextReader::fraction() const { return impl_->fraction(); }

Result<void> TextReader::Fill(size_t max_texts, size_t max_bytes, TextChunk& chunk) {
  chunk.bytes.clear();
  chunk.texts.clear();
  chunk.places.clear();
  std::vector<size_t> ends;  // views only once the bytes no longer move
  while (ends.size() < max_texts && chunk.bytes.size() < max_bytes) {
    Result<Text> text = Next();
    if (!text.ok()) return std::move(text.error());
    if (!text.value()) break;
    chunk.bytes += *text.value();
    ends.push_back(chunk.bytes.size());
    chunk.places.push_back(place());
  }
  size_t begin = 0;
  for (const size_t end : ends) {
    chunk.texts.emplace_back(chunk.bytes.data() + begin, end - begin);
    begin = end;
  }
  return {};
}

}  // namespace sprat::cli
