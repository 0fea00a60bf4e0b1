// HDF5 files of the usual form: the objects of a whole file, found in one walk.
//
// h5py writes by default, and Keras through it, headers of version 1, groups whose members are in a
// B-tree of names, values that lie in one run, and attributes that are texts. tensorferry writes the
// same. A file of this form is walked here. One that has anything else in it (links, chunks, filters,
// other types, damage) is refused without a reason: tensorferry.codecs.hdf5 reads it, or says what is
// wrong with it, and each byte means here what it means there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire.h"

namespace ferry::hdf5 {

inline constexpr std::size_t max_rank = 64;  // NumPy's

struct Attribute {
  std::string_view name;   // UTF-8, as is the value
  std::string_view value;
};

struct Object {
  std::string path;           // UTF-8: the names that lead to it, with "/" between them
  std::uint64_t address = 0;  // of its header
  std::size_t attributes = 0;  // where its attributes start in `Objects::attributes`
  std::size_t attribute_count = 0;
  const char* dtype = nullptr;  // of its values: "float32"; nullptr for a group
  std::size_t dims = 0;         // where its dimensions start in `Objects::dims`
  std::size_t rank = 0;
  std::uint64_t values = 0;  // where its values start in the file
  std::uint64_t nbytes = 0;
};

struct Objects {
  std::vector<Object> objects;  // the root first, each group before its members, members by name
  std::vector<Attribute> attributes;
  std::vector<std::uint64_t> dims;
};

// False if the file is not of the usual form, or groups nest deeper than `depth`.
bool read(Span file, std::size_t depth, Objects& found);

}  // namespace ferry::hdf5
