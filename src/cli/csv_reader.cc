#include "cli/csv_reader.h"

#include <fmt/format.h>

namespace sprat::cli {

Result<void> CsvReader::Quoted(std::string_view& rest, std::string& field) {
  const size_t opened_on = lines_.number();
  const std::string& name = lines_.file().name();
  while (true) {
    const size_t quote = rest.find('"');
    field += rest.substr(0, quote);
    if (field.size() > limit_bytes_) {
      return Error(ErrorCode::kInvalidArgument,
                   fmt::format("{}: line {}: a quoted field is longer than {} bytes, the limit of "
                               "a record; is its quote closed?",
                               name, opened_on, limit_bytes_));
    }
    if (quote == std::string_view::npos) {
      Result<std::optional<std::string_view>> more = lines_.NextRaw();
      if (!more.ok()) return std::move(more.error());
      if (!more.value()) {
        return Error(
            ErrorCode::kInvalidArgument,
            fmt::format("{}: line {}: a quote is opened and never closed", name, opened_on));
      }
      rest = *more.value();
      continue;
    }
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) return {};
    field += '"';
    rest.remove_prefix(1);
  }
}

Result<std::optional<std::span<const std::string>>> CsvReader::Next() {
  Result<std::optional<std::string_view>> line = lines_.NextRaw();
  if (!line.ok()) return std::move(line.error());
  if (!line.value()) return std::optional<std::span<const std::string>>();
  first_line_ = lines_.number();
  std::string_view rest = *line.value();
  const auto at_end = [&rest] { return rest.empty() || rest == "\n" || rest == "\r\n"; };
  fields_used_ = 0;
  while (true) {
    if (fields_used_ == fields_.size()) fields_.emplace_back();
    std::string& field = fields_[fields_used_++];
    field.clear();
    if (rest.starts_with('"')) {
      rest.remove_prefix(1);
      if (Result<void> quoted = Quoted(rest, field); !quoted.ok()) {
        return std::move(quoted.error());
      }
      if (!at_end() && !rest.starts_with(',')) {
        return Error(ErrorCode::kInvalidArgument,
                     fmt::format("{}: line {}: after a closing quote only a comma or the end of "
                                 "the line may follow (a quote inside a quoted field is doubled)",
                                 lines_.file().name(), lines_.number()));
      }
    } else {
      std::string_view plain = rest.substr(0, rest.find(','));
      rest.remove_prefix(plain.size());
      if (rest.empty()) {
        if (plain.ends_with('\n')) plain.remove_suffix(1);
        if (plain.ends_with('\r')) plain.remove_suffix(1);
      }
      field = plain;
    }
    if (!rest.starts_with(',')) break;
    rest.remove_prefix(1);
  }
  return std::optional<std::span<const std::string>>(std::span(fields_.data(), fields_used_));
}

}  // namespace sprat::cli
