#include "hdf5_encode.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace ferry::hdf5 {

namespace {

constexpr std::string_view signature("\x89HDF\r\n\x1a\n", 8);
constexpr std::uint64_t undefined = ~std::uint64_t{0};
constexpr std::size_t most_dims = 32;  // that the HDF5 library knows

// Half of how many members a table, and of how many children a node of a tree has: HDF5's defaults.
constexpr std::size_t leaf = 4, internal = 16;

constexpr std::size_t symbol_size = 40;
constexpr std::size_t table_size = 8 + 2 * leaf * symbol_size;
constexpr std::size_t node_size = 24 + 8 * (4 * internal + 1);

// Values of so many bytes start where vectors may be loaded from.
constexpr std::uint64_t large = 4096, aligned = 64, plain = 8;

// The least size of a heap of texts, and the size beyond which another one is begun.
constexpr std::size_t least_heap = 4096, full_heap = 1 << 16;

// Messages of a header, and the flag of one that never changes.
enum Message : std::uint16_t {
  dataspace = 1,
  datatype = 3,
  fill_value = 5,
  layout = 8,
  attribute = 12,
  symbol_table = 17,
};
constexpr std::uint8_t constant = 1;

// No dimensions.
constexpr std::string_view scalar("\1\0\0\0\0\0\0\0", 8);
// Written late, filled with zeros if it is not: what h5py asks for.
constexpr std::string_view fill("\2\2\2\1\0\0\0\0", 8);
// The type of a text of any length: bytes of UTF-8, in a heap.
constexpr std::string_view text_type("\x19\1\1\0\x10\0\0\0\x10\0\0\0\1\0\0\0\0\0\x08\0", 20);

constexpr std::uint64_t padded(std::uint64_t size) { return (size + 7) / 8 * 8; }

template <typename Narrow>
Narrow narrow(std::uint64_t number) {
  if (number > std::numeric_limits<Narrow>::max()) {
    throw std::length_error("a number that HDF5 has no room for");
  }
  return static_cast<Narrow>(number);
}

// Fails where a file would have 2**64 bytes.
std::uint64_t sum(std::uint64_t one, std::uint64_t other) {
  if (other > std::numeric_limits<std::uint64_t>::max() - one) {
    throw std::length_error("more bytes than an HDF5 file can have");
  }
  return one + other;
}

std::uint64_t product(std::uint64_t one, std::uint64_t other) {
  if (other != 0 && one > std::numeric_limits<std::uint64_t>::max() / other) {
    throw std::length_error("more bytes than an HDF5 file can have");
  }
  return one * other;
}

bool is_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('\0') == name.npos;
}

}  // namespace

// Where the bytes go. Without memory they go nowhere: the first run finds the places of everything.
class Output {
 public:
  Output() = default;
  Output(std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::uint64_t place() const { return place_; }

  template <typename Number>
  void number(Number value) {  // little-endian hosts only: see CMakeLists.txt
    put(&value, sizeof(value));
  }
  void text(std::string_view text) { put(text.data(), text.size()); }
  void zeros(std::size_t count) {
    if (data_ != nullptr) std::memset(room(place_, count), 0, count);
    place_ += count;
  }
  void pad() { zeros(static_cast<std::size_t>(padded(place_) - place_)); }

  // Puts a number where zeros were put before.
  template <typename Number>
  void set(std::uint64_t place, Number value) {
    if (data_ != nullptr) std::memcpy(room(place, sizeof(value)), &value, sizeof(value));
  }

 private:
  void put(const void* bytes, std::size_t count) {
    if (count == 0) return;
    if (data_ != nullptr) std::memcpy(room(place_, count), bytes, count);
    place_ += count;
  }
  std::uint8_t* room(std::uint64_t place, std::size_t count) const {
    if (place > size_ || count > size_ - place) {
      throw std::logic_error("the parts of an HDF5 file have other sizes than were measured");
    }
    return data_ + place;
  }

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t place_ = 0;
};

namespace {

// A message in a header, whose size stands before it.
class Block {
 public:
  Block(Output& out, Message kind, std::uint8_t flags = 0) : out_(out) {
    out.number<std::uint16_t>(kind);
    out.number<std::uint16_t>(0);
    out.number<std::uint32_t>(flags);
    start_ = out.place();
  }
  void end() {
    out_.pad();
    out_.set(start_ - 6, narrow<std::uint16_t>(out_.place() - start_));
  }

 private:
  Output& out_;
  std::uint64_t start_;
};

// The header of an object.
template <typename Put>
std::uint64_t put_header(Output& out, std::uint64_t count, Put put_messages) {
  const std::uint64_t start = out.place();
  out.number<std::uint16_t>(1);
  out.number<std::uint16_t>(narrow<std::uint16_t>(count));
  out.number<std::uint32_t>(1);
  out.zeros(8);
  put_messages();
  out.set(start + 8, narrow<std::uint32_t>(out.place() - start - 16));
  return start;
}

}  // namespace

Encoder::Encoder(std::string_view within) : within_(within) {
  objects_.push_back({});
  objects_[0].is_group = true;
  groups_.push_back({0});
}

Refusal Encoder::add_group(std::string_view path, const std::vector<Attribute>& attributes) {
  if (path.starts_with('/')) path.remove_prefix(1);
  const Refusal refusal = enter(path);
  if (refusal == Refusal::none) keep(groups_[steps_.back().group].object, attributes);
  return refusal;
}

Refusal Encoder::add_dataset(std::string_view path, std::string_view datatype,
                             const std::vector<std::uint64_t>& dims,
                             const std::vector<Attribute>& attributes) {
  if (path.starts_with('/')) path.remove_prefix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos || !is_name(path.substr(slash + 1))) return Refusal::path;
  if (dims.size() > most_dims) return Refusal::rank;
  const std::string_view above = path.substr(0, slash);
  if (above.substr(above.rfind('/') + 1) != within_) return Refusal::path;  // npos + 1 is 0
  if (const Refusal refusal = enter(above); refusal != Refusal::none) return refusal;
  const auto [object, is_new] = add(steps_.back().group, path.substr(slash + 1), false);
  if (!is_new) return objects_[object].is_group ? Refusal::mixed : Refusal::twice;
  if (datatype.size() < 8) throw std::invalid_argument("a datatype has at least 8 bytes");
  std::uint32_t item;
  std::memcpy(&item, datatype.data() + 4, sizeof(item));
  std::uint64_t size = item;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) size = 0;
  for (const std::uint64_t each : dims) size = product(size, each);
  datasets_.push_back({object, static_cast<std::uint8_t>(dims.size()), dims_.size(), datatype, size,
                       undefined});
  dims_.insert(dims_.end(), dims.begin(), dims.end());
  keep(object, attributes);
  return Refusal::none;
}

// Makes `steps_` lead to the group of a path. Most paths start as the one before does.
Refusal Encoder::enter(std::string_view path) {
  const auto common = static_cast<std::size_t>(
      std::mismatch(path.begin(), path.end(), last_path_.begin(), last_path_.end()).first -
      path.begin());
  while (!steps_.empty()) {
    const std::size_t end = steps_.back().end;
    if (end <= common && (end == path.size() || path[end] == '/')) break;
    steps_.pop_back();
  }
  last_path_ = path;
  std::size_t start = steps_.empty() ? 0 : steps_.back().end + 1;
  while (start <= path.size()) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view name = path.substr(start, end - start);
    if (!is_name(name)) return Refusal::path;
    const auto [object, is_new] = add(steps_.empty() ? 0 : steps_.back().group, name, true);
    if (!objects_[object].is_group) return Refusal::mixed;
    steps_.push_back({end, objects_[object].number});
    start = end + 1;
  }
  return Refusal::none;
}

// The member of a group that has a name, and whether it was added now.
std::pair<Encoder::Index, bool> Encoder::add(Index group, std::string_view name, bool is_group) {
  const Index number = counted(objects_.size());
  if (groups_[group].count > 0) {
    const Index first = groups_[group].first;
    if (objects_[first].name == name) return {first, false};
    const auto [place, is_new] = known_.try_emplace({group, name}, number);
    if (!is_new) return {place->second, false};
  }
  Object object;
  object.name = name;
  object.is_group = is_group;
  object.number = counted(is_group ? groups_.size() : datasets_.size());
  objects_.push_back(object);
  Group& above = groups_[group];
  (above.last == none ? above.first : objects_[above.last].next) = number;
  above.last = number;
  ++above.count;
  if (is_group) groups_.push_back({number});
  return {number, true};
}

Encoder::Index Encoder::counted(std::size_t count) const {
  if (count >= none) throw std::length_error("more objects than are counted here");
  return static_cast<Index>(count);
}

void Encoder::keep(Index object, const std::vector<Attribute>& attributes) {
  objects_[object].attributes = counted(attributes_.size());
  objects_[object].attribute_count = counted(attributes.size());
  for (const Attribute& each : attributes) attributes_.push_back({each.name, each.value, 0});
}

std::size_t Encoder::measure() {
  arrange();
  Output nowhere;
  put_everything(nowhere);
  place_values(nowhere.place());
  return static_cast<std::size_t>(nowhere.place());
}

void Encoder::write(std::uint8_t* data, std::size_t size) {
  Output out(data, size);
  put_everything(out);
  if (out.place() != size) throw std::logic_error("fewer bytes of HDF5 than were measured");
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> Encoder::values() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  found.reserve(datasets_.size());
  for (const Dataset& dataset : datasets_) found.emplace_back(dataset.address, dataset.size);
  return found;
}

// Sorts the members of groups, and numbers texts.
void Encoder::arrange() {
  order_.push_back(0);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    Group& group = groups_[order_[i]];
    group.members = members_.size();
    group.names_size = 8;
    for (Index member = group.first; member != none; member = objects_[member].next) {
      members_.push_back(member);
      if (objects_[member].is_group) order_.push_back(objects_[member].number);
      group.names_size += padded(objects_[member].name.size() + 1);
    }
    std::sort(members_.end() - group.count, members_.end(),
              [&](Index a, Index b) { return objects_[a].name < objects_[b].name; });
  }
  for (const Index group : order_) keep_texts(objects_[groups_[group].object]);
  for (const Dataset& dataset : datasets_) keep_texts(objects_[dataset.object]);
}

void Encoder::keep_texts(const Object& object) {
  for (Index i = 0; i < object.attribute_count; ++i) {
    Kept& kept = attributes_[object.attributes + i];
    const auto [place, is_new] = numbers_.try_emplace(kept.text, texts_.size());
    if (is_new) texts_.push_back({kept.text});
    kept.number = place->second;
  }
}

void Encoder::place_values(std::uint64_t end) {
  for (Dataset& dataset : datasets_) {
    if (dataset.size == 0) continue;
    const std::uint64_t step = dataset.size >= large ? aligned : plain;
    dataset.address = sum(end, step - 1) / step * step;
    end = sum(dataset.address, dataset.size);
  }
  end_ = end;
}

void Encoder::put_everything(Output& out) {
  put_superblock(out);
  put_texts(out);
  for (const Dataset& dataset : datasets_) put_dataset(out, dataset);
  for (std::size_t i = order_.size(); i > 0; --i) {
    put_group(out, groups_[order_[i - 1]]);  // what is inside comes first
  }
}

void Encoder::put_superblock(Output& out) const {
  out.text(signature);
  out.zeros(5);  // versions
  out.number<std::uint16_t>(0x0808);  // addresses and lengths have eight bytes
  out.zeros(1);
  out.number<std::uint16_t>(leaf);
  out.number<std::uint16_t>(internal);
  out.zeros(12);  // flags, and where the file starts
  out.number(undefined);
  out.number(end_);
  out.number(undefined);
  out.zeros(8);
  out.number(objects_[0].header);
  out.number<std::uint64_t>(1);  // a group, as in a table
  out.number(groups_[0].tree);
  out.number(groups_[0].heap);
}

void Encoder::put_texts(Output& out) {
  for (std::size_t i = 0; i < texts_.size();) {
    const std::uint64_t start = out.place();
    out.text("GCOL");
    out.number<std::uint32_t>(1);
    out.zeros(8);
    for (std::uint16_t number = 1; i < texts_.size() && out.place() - start - 16 < full_heap; ++i) {
      texts_[i].heap = start;
      texts_[i].number = number;
      out.number<std::uint64_t>(number++);
      out.number<std::uint64_t>(texts_[i].text.size());
      out.text(texts_[i].text);
      out.pad();
    }
    const std::uint64_t end = std::max(start + least_heap, out.place() + 16);
    out.set(start + 8, end - start);
    out.zeros(8);
    out.number(end - out.place() + 8);  // the space that is left
    out.zeros(static_cast<std::size_t>(end - out.place()));
  }
}

void Encoder::put_dataset(Output& out, const Dataset& dataset) {
  Object& object = objects_[dataset.object];
  object.header = put_header(out, std::uint64_t{4} + object.attribute_count, [&] {
    Block place(out, layout);
    out.number<std::uint16_t>(0x0103);  // version 3: values that lie in one run
    out.number(dataset.address);
    out.number(dataset.size);
    place.end();
    Block space(out, dataspace);
    if (dataset.rank == 0) {
      out.text(scalar);
    } else {
      out.number<std::uint64_t>(0x010001 | std::uint64_t{dataset.rank} << 8);
      const std::string_view dims(reinterpret_cast<const char*>(dims_.data() + dataset.dims),
                                  dataset.rank * sizeof(std::uint64_t));
      out.text(dims);
      out.text(dims);  // the most that they may become
    }
    space.end();
    Block type(out, datatype, constant);
    out.text(dataset.datatype);
    type.end();
    Block unwritten(out, fill_value, constant);
    out.text(fill);
    unwritten.end();
    put_attributes(out, object);
  });
}

void Encoder::put_attributes(Output& out, const Object& object) const {
  for (Index i = 0; i < object.attribute_count; ++i) {
    const Kept& kept = attributes_[object.attributes + i];
    const Text& text = texts_[kept.number];
    Block block(out, attribute);
    out.number<std::uint16_t>(1);
    out.number(narrow<std::uint16_t>(kept.name.size() + 1));
    out.number<std::uint16_t>(text_type.size());
    out.number<std::uint16_t>(scalar.size());
    out.text(kept.name);
    out.zeros(1);
    out.pad();
    out.text(text_type);
    out.pad();
    out.text(scalar);
    out.number(narrow<std::uint32_t>(text.text.size()));
    out.number(text.heap);
    out.number<std::uint32_t>(text.number);
    block.end();
  }
}

void Encoder::put_group(Output& out, Group& group) {
  group.heap = out.place();
  out.text("HEAP");
  out.zeros(4);
  out.number(group.names_size);
  out.number<std::uint64_t>(1);  // there is no free space
  out.number(group.heap + 32);
  const std::uint64_t names = out.place();
  out.zeros(8);
  name_places_.clear();
  for (std::size_t i = 0; i < group.count; ++i) {
    name_places_.push_back(out.place() - names);
    out.text(objects_[members_[group.members + i]].name);
    out.zeros(1);
    out.pad();
  }
  children_.clear();
  for (std::size_t start = 0; start < group.count; start += 2 * leaf) {
    const std::size_t count = std::min(group.count - start, 2 * leaf);
    children_.push_back({name_places_[start + count - 1], out.place()});
    put_table(out, group, start, count);
  }
  group.tree = put_tree(out);
  Object& object = objects_[group.object];
  object.header = put_header(out, std::uint64_t{1} + object.attribute_count, [&] {
    Block symbols(out, symbol_table);
    out.number(group.tree);
    out.number(group.heap);
    symbols.end();
    put_attributes(out, object);
  });
}

void Encoder::put_table(Output& out, const Group& group, std::size_t start, std::size_t count) {
  out.text("SNOD");
  out.number<std::uint16_t>(1);
  out.number(static_cast<std::uint16_t>(count));
  for (std::size_t i = start; i < start + count; ++i) {
    const Object& object = objects_[members_[group.members + i]];
    out.number(name_places_[i]);
    out.number(object.header);
    out.number<std::uint64_t>(object.is_group);
    out.number<std::uint64_t>(object.is_group ? groups_[object.number].tree : 0);
    out.number<std::uint64_t>(object.is_group ? groups_[object.number].heap : 0);
  }
  out.zeros(table_size - 8 - count * symbol_size);
}

// Writes a tree above the tables in `children_`, and gives the address of its root.
std::uint64_t Encoder::put_tree(Output& out) {
  for (std::uint8_t level = 0;; ++level) {
    const std::uint64_t first = out.place();
    std::uint64_t before = 0;
    above_.clear();
    for (std::size_t start = 0; start == 0 || start < children_.size(); start += 2 * internal) {
      const std::uint64_t address = out.place();
      const std::size_t end = std::min(children_.size(), start + 2 * internal);
      out.text("TREE");
      out.number<std::uint8_t>(0);
      out.number(level);
      out.number(static_cast<std::uint16_t>(end - start));
      out.number(start == 0 ? undefined : address - node_size);
      out.number(end == children_.size() ? undefined : address + node_size);
      out.number(before);
      for (std::size_t i = start; i < end; ++i) {
        out.number(children_[i].address);
        out.number(before = children_[i].key);
      }
      out.zeros(static_cast<std::size_t>(address + node_size - out.place()));
      above_.push_back({before, address});
    }
    if (above_.size() == 1) return first;
    children_.swap(above_);
  }
}

}  // namespace ferry::hdf5
