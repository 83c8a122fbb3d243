#include "cli/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/input_file.h"
#include "cli/utf8.h"

namespace sprat::cli {
namespace {

namespace fs = std::filesystem;

// Appends what is directly in `folder`: its files to `files`, its folders to `folders`.
std::error_code ListFolder(const fs::path& folder, std::vector<FoundFile>& files,
                           std::vector<fs::path>& folders) {
  std::error_code fault;
  for (fs::directory_iterator it(folder, fault), end; !fault && it != end; it.increment(fault)) {
    std::error_code ignored;  // a file that vanishes is as one that was never there
    if (it->path().filename().string().starts_with('.')) continue;
    if (it->is_directory(ignored) && !it->is_symlink(ignored)) folders.push_back(it->path());
    if (!it->is_regular_file(ignored)) continue;
    std::error_code unknown;
    const uint64_t size = it->file_size(unknown);
    files.push_back(
        {.path = it->path().lexically_normal().string(), .size_bytes = unknown ? 0 : size});
  }
  return fault;
}

Result<void> AppendFolder(const std::string& named, FoundFiles& found) {
  const size_t before = found.files.size();
  std::vector<fs::path> folders = {named};
  while (!folders.empty()) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    const std::error_code fault = ListFolder(folder, found.files, folders);
    if (!fault) continue;
    Error error = SystemError(folder.string(), "cannot open", fault.value());
    if (folder == named) return error;
    found.unreadable.push_back(error.message());
  }
  std::sort(found.files.begin() + static_cast<ptrdiff_t>(before), found.files.end(),
            [](const FoundFile& a, const FoundFile& b) { return a.path < b.path; });
  std::sort(found.unreadable.begin(), found.unreadable.end());
  return {};
}

// Keeps of several names of one file the first.
void DropRepeated(std::vector<FoundFile>& files) {
  std::set<std::string> seen;
  std::erase_if(files, [&seen](const FoundFile& file) {
    std::error_code fault;
    const fs::path place = fs::canonical(file.path, fault);
    return file.path != "-" && !fault && !seen.insert(place.string()).second;
  });
}

// The error for a named file whose content cannot be searched.
Error Refused(const FoundFile& file, const std::string& content, size_t at) {
  const std::string_view before = std::string_view(content).substr(0, at);
  const auto line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: line {}, byte {}: 0x{:02x} does not belong in UTF-8 text", file.path, line,
                  at - line_start + 1, static_cast<unsigned char>(content[at])));
}

}  // namespace

Result<FoundFiles> FindFiles(const std::vector<std::string>& paths) {
  FoundFiles found;
  for (const std::string& path : paths) {
    std::error_code fault;
    const fs::file_status status = fs::status(path, fault);
    if (path == "-") {
      found.files.push_back({.path = path, .named = true});
    } else if (!fs::exists(status)) {
      return SystemError(path, "cannot open", fault ? fault.value() : ENOENT);
    } else if (fs::is_directory(status)) {
      if (Result<void> added = AppendFolder(path, found); !added.ok()) {
        return std::move(added.error());
      }
    } else {
      const uint64_t size = fs::is_regular_file(status) ? fs::file_size(path, fault) : 0;
      found.files.push_back({.path = path, .size_bytes = size, .named = true});
    }
  }
  if (paths.size() > 1) DropRepeated(found.files);
  return found;
}

Result<FileKind> ReadTextFile(const FoundFile& file, std::string& content) {
  Result<InputFile> input = InputFile::Open(file.path);
  if (!input.ok()) return std::move(input.error());
  constexpr size_t kBlockBytes{64 << 10};
  content.resize(std::min<uint64_t>(file.size_bytes, kMaxFileBytes) + kBlockBytes);
  size_t used = 0;
  while (true) {
    if (content.size() - used < kBlockBytes) content.resize(2 * content.size());
    Result<size_t> n = input.value().Read({content.data() + used, content.size() - used});
    if (!n.ok()) return std::move(n.error());
    if (n.value() == 0) break;
    used += n.value();
    if (used <= kMaxFileBytes) continue;
    if (!file.named) return FileKind::kTooLarge;
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{}: larger than {} bytes, the limit of a file to search", file.path,
                             kMaxFileBytes));
  }
  content.resize(used);
  if (content.starts_with("\xEF\xBB\xBF")) content.erase(0, 3);
  if (const size_t zero = content.find('\0'); zero != std::string::npos) {
    if (!file.named) return FileKind::kBinary;
    return Refused(file, content, zero);
  }
  if (const size_t valid = ValidUtf8Prefix(content); valid < content.size()) {
    if (!file.named) return FileKind::kNotUtf8;
    return Refused(file, content, valid);
  }
  return FileKind::kText;
}

}  // namespace sprat::cli
