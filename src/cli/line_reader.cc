#include "cli/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/utf8.h"

namespace sprat::cli {
namespace {

constexpr size_t kBlockBytes{64 << 10};
constexpr std::string_view kByteOrderMark{"\xEF\xBB\xBF"};

}  // namespace

Result<bool> LineReader::Fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kBlockBytes) {
    buffer_.resize(std::max(buffer_.size() + kBlockBytes, 2 * end_));
  }
  Result<size_t> n = file_.Read({buffer_.data() + end_, buffer_.size() - end_});
  if (!n.ok()) return std::move(n.error());
  end_ += n.value();
  bytes_read_ += n.value();
  return n.value() > 0;
}

Error LineReader::NotUtf8(std::string_view line, size_t at) const {
  return Error(ErrorCode::kInvalidArgument,
               fmt::format("{}: line {}, byte {}: 0x{:02x} is not UTF-8{}", file_.name(), number_,
                           at + 1, static_cast<unsigned char>(line[at]),
                           utf16_ ? "; the file looks like UTF-16: convert it with "
                                    "iconv -f UTF-16 -t UTF-8"
                                  : ""));
}

Result<std::optional<std::string_view>> LineReader::NextRaw() {
  size_t scanned = 0;  // bytes of the line known to hold no LF
  size_t length = 0;   // of the line with its end
  while (length == 0) {
    const char* from = buffer_.data() + begin_;
    const void* found = scanned < end_ - begin_
                            ? std::memchr(from + scanned, '\n', end_ - begin_ - scanned)
                            : nullptr;
    if (found != nullptr) {
      length = static_cast<size_t>(static_cast<const char*>(found) - from) + 1;
      break;
    }
    scanned = end_ - begin_;
    if (scanned > limit_bytes_) break;
    Result<bool> more = Fill();
    if (!more.ok()) return std::move(more.error());
    if (more.value()) continue;
    if (scanned == 0) return std::optional<std::string_view>();
    length = scanned;
  }
  ++number_;
  if (length == 0 || length > limit_bytes_) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}: line {}: longer than {} bytes, the limit of a line", file_.name(),
                             number_, limit_bytes_));
  }
  std::string_view line(buffer_.data() + begin_, length);
  begin_ += length;
  if (at_start_) {
    at_start_ = false;
    utf16_ = line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF");
    if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (line.empty()) {  // nothing but the mark: the file has no line
      --number_;
      return std::optional<std::string_view>();
    }
  }
  const size_t valid = ValidUtf8Prefix(line);
  if (valid < line.size()) return NotUtf8(line, valid);
  return std::optional<std::string_view>(line);
}

Result<std::optional<std::string_view>> LineReader::Next() {
  Result<std::optional<std::string_view>> raw = NextRaw();
  if (!raw.ok() || !raw.value()) return raw;
  std::string_view line = *raw.value();
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return std::optional<std::string_view>(line);
}

}  // namespace sprat::cli
