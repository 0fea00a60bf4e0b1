// HDF5 files as h5py writes them by default, up to the first value.
//
//     superblock | texts of attributes | headers of datasets | groups | values
//
// A group is a header, a heap of its members' names, and a B-tree whose leaves are tables of eight
// members, sorted by name. Only the sizes of values have to be known for all this: values are written
// by whoever has them, at the addresses that datasets have by then. Nothing depends on the time: the
// same groups give the same bytes. `hdf5.h` reads them.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hdf5.h"
#include "text.h"

namespace ferry::hdf5 {

// Why an object cannot be added.
enum class Refusal : std::uint8_t {
  none,
  path,   // a name on the path that no object may have, or a dataset outside of the groups for them
  twice,  // another dataset has the path
  mixed,  // a dataset and a group have the same path
  rank,   // more dimensions than the HDF5 library knows
};

class Output;

// Takes groups and datasets, and encodes them; after a refusal there is nothing to encode. Paths, texts and datatypes are held by the caller
// until the end. Throws std::length_error where a field of the file is too narrow for a number.
class Encoder {
 public:
  // `within`: what the groups are called that datasets may be in.
  explicit Encoder(std::string_view within);

  // Adds a group, and those that lead to it. A path may start with a slash.
  Refusal add_group(std::string_view path, const std::vector<Attribute>& attributes);

  // `datatype` is a message of the type, in which the size of a value is.
  Refusal add_dataset(std::string_view path, std::string_view datatype,
                      const std::vector<std::uint64_t>& dims,
                      const std::vector<Attribute>& attributes);

  // How many bytes stand before the values. Nothing can be added any more.
  std::size_t measure();

  // Writes them; `size` is what `measure` gave.
  void write(std::uint8_t* data, std::size_t size);

  // Where the values of each dataset stand, and how many bytes they have.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> values() const;

 private:
  using Index = std::uint32_t;
  static constexpr Index none = 0xffffffff;

  struct Text {
    std::string_view text;
    std::uint64_t heap = 0;
    std::uint16_t number = 0;
  };
  struct Kept {  // an attribute
    std::string_view name, text;
    std::size_t number = 0;  // of the text
  };
  struct Object {
    std::string_view name;
    Index next = none;      // the member of its group that was added after it
    Index number = 0;       // among groups, or among datasets
    Index attributes = 0, attribute_count = 0;
    std::uint64_t header = 0;
    bool is_group = false;
  };
  struct Group {
    Index object, first = none, last = none, count = 0;
    std::size_t members = 0;  // where its members start in `members_`, sorted by name
    std::uint64_t names_size = 0, tree = 0, heap = 0;
  };
  struct Dataset {
    Index object;
    std::uint8_t rank;
    std::size_t dims;
    std::string_view datatype;
    std::uint64_t size, address;
  };
  struct Key {
    Index group;
    std::string_view name;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept {
      return TextHash()(key.name) ^ key.group * std::size_t{0x9e3779b97f4a7c15};
    }
  };
  struct Step {  // of the path that was added last: a group, and where its name ends
    std::size_t end;
    Index group;
  };
  struct Child {  // of a node: the place of its last name, which is the key behind it
    std::uint64_t key, address;
  };

  Refusal enter(std::string_view path);
  std::pair<Index, bool> add(Index group, std::string_view name, bool is_group);
  Index counted(std::size_t count) const;
  void keep(Index object, const std::vector<Attribute>& attributes);
  void arrange();
  void keep_texts(const Object& object);
  void place_values(std::uint64_t end);

  void put_everything(Output& out);
  void put_superblock(Output& out) const;
  void put_texts(Output& out);
  void put_dataset(Output& out, const Dataset& dataset);
  void put_group(Output& out, Group& group);
  void put_table(Output& out, const Group& group, std::size_t start, std::size_t count);
  std::uint64_t put_tree(Output& out);
  void put_attributes(Output& out, const Object& object) const;

  std::string_view within_;
  std::string_view last_path_;
  std::vector<Step> steps_;  // to the group of the path that was added last
  std::vector<Object> objects_;
  std::vector<Group> groups_;
  std::vector<Dataset> datasets_;
  std::vector<std::uint64_t> dims_;
  std::vector<Kept> attributes_;
  std::unordered_map<Key, Index, KeyHash> known_;  // all but the first in each group

  std::vector<Index> order_;  // of groups: the root first, then its groups, then those in them
  std::vector<Index> members_;
  std::vector<Text> texts_;
  std::unordered_map<std::string_view, std::size_t, TextHash> numbers_;  // of texts
  std::vector<std::uint64_t> name_places_;  // of the members of the group that is written
  std::vector<Child> children_, above_;
  std::uint64_t end_ = 0;  // of the file
};

}  // namespace ferry::hdf5
