// npz archives of the usual form: the arrays of a whole file, found in one pass.
//
// numpy.savez and tensorferry write zip archives whose members are stored npy files, one behind the
// other, with the directory at the end. Such an archive is walked here: directory, local headers and
// the headers of the npy files, which must agree in everything. An archive that is not of this form
// is refused without a reason: tensorferry.codecs.zip reads it, or says what is wrong with it.
#pragma once

#include <string_view>
#include <vector>

#include "wire.h"

namespace ferry::npz {

inline constexpr std::size_t max_rank = 64;  // NumPy's

struct Member {
  std::string_view name;   // UTF-8, with its suffix
  std::uint64_t begin = 0;  // where its bytes start in the file
  std::uint64_t end = 0;
  std::uint32_t checksum = 0;  // CRC-32 of these bytes
  bool is_array = false;       // of a member that is no npy file, nothing else is known
  std::string_view dtype;      // as NumPy writes it: "<f4"
  bool is_fortran = false;
  std::size_t dims = 0;  // where its dimensions start in `Archive::dims`
  std::size_t rank = 0;
  std::uint64_t values = 0;  // where the values start in the file
};

struct Archive {
  std::vector<Member> members;
  std::vector<std::uint64_t> dims;
};

// False if the archive is not of the usual form. The directory of `count` members stands between
// the offsets `start` and `stop` of the file.
bool read(Span file, std::uint64_t start, std::uint64_t stop, std::uint64_t count,
          Archive& archive);

}  // namespace ferry::npz
