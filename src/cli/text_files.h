// The text files that a search looks into.
#ifndef SPRAT_CLI_TEXT_FILES_H_
#define SPRAT_CLI_TEXT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sprat/result.h"

namespace sprat::cli {

struct FoundFile {
  std::string path;
  uint64_t size_bytes = 0;
  bool named = false;  // by the user, not found in a folder
};

struct FoundFiles {
  std::vector<FoundFile> files;
  std::vector<std::string> unreadable;  // folders: "PATH: cannot open: Permission denied"
};

// The files that `paths` name, in their order, each once; a folder stands for the regular files in
// it and in its folders, sorted by name, without hidden ones (whose names start with '.') and
// without following symbolic links to folders. "-" is standard input. A folder that is not named
// and cannot be read goes to `unreadable`. Errors, naming the path: kNotFound for one that does not
// exist, kIo for a named folder that cannot be read.
Result<FoundFiles> FindFiles(const std::vector<std::string>& paths);

inline constexpr uint64_t kMaxFileBytes{64 << 20};

enum class FileKind { kText, kBinary, kNotUtf8, kTooLarge };

// Reads a whole file into `content` and says what it is; the content is meaningful only for kText.
// Binary is what holds a zero byte. A byte order mark is dropped.
// Errors: kIo, kNotFound; for a file that the user named also kInvalidArgument, with line and byte,
// if it is not UTF-8 text of at most kMaxFileBytes.
Result<FileKind> ReadTextFile(const FoundFile& file, std::string& content);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_TEXT_FILES_H_
