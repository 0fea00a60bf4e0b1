#include "objects.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <tuple>
#include <utility>

namespace ferry::objects {

namespace {

// Of both graphs and of their objects.
constexpr std::uint32_t nodes_field = 1, children_field = 1, attributes_field = 2, slots_field = 3;
constexpr std::uint32_t first_kind = 4, last_kind = 12, saveable_objects = 11;
constexpr std::uint32_t values_field = 5;  // has_checkpoint_values

[[noreturn]] void refuse(Span where) {
  throw Error(Problem::malformed, where.offset(), "no object graph of the usual form");
}

// The numbers and texts of a message of a few fields; what is not there is 0 or empty.
struct Record {
  std::array<std::uint64_t, 8> numbers{};
  std::array<Span, 8> bytes{};
  unsigned seen = 0;

  bool has(std::uint32_t field) const { return (seen >> field & 1) != 0; }
};

// `numbers`, `texts` and `messages` have a bit for each field of that kind.
Record read_record(Span message, unsigned numbers, unsigned texts, unsigned messages = 0) {
  Record record;
  record.bytes.fill({message.data + message.size, 0, message.input});
  Reader reader(message);
  for (Field field; reader.next(field);) {
    const std::uint32_t number = field.tag.field;
    const unsigned bit = number < 8 ? 1u << number : 0;
    if ((bit & (numbers | texts | messages)) == 0) continue;
    const Wire wire = (bit & numbers) != 0 ? Wire::varint : Wire::bytes;
    if (record.has(number) || field.tag.wire != wire) refuse(message);
    record.seen |= bit;
    if (wire == Wire::varint) {
      record.numbers[number] = field.value;
    } else {
      record.bytes[number] = (bit & texts) != 0 ? checked_text(field.bytes) : field.bytes;
    }
  }
  return record;
}

constexpr unsigned bits(std::initializer_list<unsigned> fields) {
  unsigned found = 0;
  for (const unsigned field : fields) found |= 1u << field;
  return found;
}

// The number of an object, as far as a message can say.
std::size_t object_at(std::uint64_t number, Span message) {
  if (number > UINT32_MAX) refuse(message);
  return static_cast<std::size_t>(number);
}

Child read_child(Span message) {
  const Record record = read_record(message, bits({1}), bits({2}));
  return {record.bytes[2], object_at(record.numbers[1], message)};
}

Slot read_slot(Span message) {
  const Record record = read_record(message, bits({1, 3}), bits({2}));
  return {object_at(record.numbers[1], message), record.bytes[2],
          object_at(record.numbers[3], message)};
}

void read_attribute(Span message, Object& object) {
  const Record record = read_record(message, 0, bits({1, 2, 3}));
  if (view(record.bytes[1]) != "VARIABLE_VALUE") return;
  object.key = record.bytes[3];
  object.has_key = true;
}

// Whether a field says what a saved object is.
bool is_kind(std::uint32_t field) {
  return field >= first_kind && field <= last_kind && field != saveable_objects;
}

Object read_object(Span message, bool is_saved) {
  Object object;
  bool has_values = false;
  Reader reader(message);
  for (Field field; reader.next(field);) {
    const std::uint32_t number = field.tag.field;
    const bool is_known = number == children_field || number == slots_field ||
                          (is_saved ? is_kind(number)
                                    : number == attributes_field || number == values_field);
    if (!is_known) continue;
    if (field.tag.wire != Wire::bytes) refuse(message);
    if (number == children_field) {
      object.children.push_back(read_child(field.bytes));
    } else if (number == slots_field) {
      object.slots.push_back(read_slot(field.bytes));
    } else if (is_saved) {
      if (object.kind != 0) refuse(message);
      object.kind = number;
      object.value = field.bytes;
    } else if (number == attributes_field) {
      read_attribute(field.bytes, object);
    } else if (std::exchange(has_values, true)) {
      refuse(message);
    }
  }
  return object;
}

// All numbers are those of objects, and no two children of an object have one name.
void check(const Graph& graph, Span message) {
  Texts names;
  for (const Object& object : graph) {
    for (const Slot& slot : object.slots) {
      if (slot.variable >= graph.size() || slot.object >= graph.size()) refuse(message);
    }
    if (object.children.empty()) continue;
    names.clear();
    for (const Child& child : object.children) {
      if (child.object >= graph.size() || !names.add(child.name).is_new) refuse(message);
    }
  }
}

Graph read(Span message, std::size_t most, bool is_saved) {
  Graph graph;
  Reader reader(message);
  for (Field field; reader.next(field);) {
    if (field.tag.field != nodes_field) continue;
    if (field.tag.wire != Wire::bytes || graph.size() == most) refuse(message);
    graph.push_back(read_object(field.bytes, is_saved));
  }
  check(graph, message);
  return graph;
}

// Lists in which layers and optimizers of Keras 3 hold variables that have a name elsewhere.
bool is_reference(Span name) {
  return view(name) == "_trainable_variables" || view(name) == "_non_trainable_variables";
}

bool is_listed(const Object& object) {
  return object.kind == variable_kind || object.kind == function_kind ||
         object.kind == bare_function_kind;
}

// The shortest ways from the root; those through a list of references only where there is no other.
class Ways {
 public:
  Ways(const Graph& graph, std::uint64_t room)
      : above_(graph.size()), names_(graph.size()), room_(room) {
    if (graph.empty()) return;
    std::vector<std::pair<std::size_t, Child>> references;
    reach(0, 0, {});
    for (std::size_t at = 0; at < order.size();) {
      references.clear();
      for (; at < order.size(); ++at) {
        for (const Child& child : graph[order[at]].children) {
          if (is_reference(child.name)) {
            references.push_back({order[at], child});
          } else {
            reach(child.object, order[at], child.name);
          }
        }
      }
      for (const auto& [number, child] : references) reach(child.object, number, child.name);
    }
  }

  bool has(std::size_t object) const { return above_[object] != 0; }

  std::string path(std::size_t object) {
    std::vector<Span> names;
    std::size_t size = 0;
    for (; object != 0; object = above_[object] - 1) {
      names.push_back(names_[object]);
      size += names_[object].size + 1;
      if (size > room_) refuse(names_[object]);
    }
    room_ -= size;
    std::string path;
    path.reserve(size);
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      if (name != names.rbegin()) path += '/';
      path += view(*name);
    }
    return path;
  }

  std::vector<std::size_t> order;

 private:
  void reach(std::size_t object, std::size_t from, Span name) {
    if (has(object)) return;
    above_[object] = from + 1;
    names_[object] = name;
    order.push_back(object);
  }

  std::vector<std::size_t> above_;  // the object before plus 1; 0 where no way leads
  std::vector<Span> names_;
  std::uint64_t room_;
};

}  // namespace

Graph read_saved(Span message, std::size_t most) { return read(message, most, true); }

Graph read_tracked(Span message, std::size_t most) { return read(message, most, false); }

std::vector<Placed> find_paths(const Graph& graph, std::uint64_t room) {
  Ways ways(graph, room);
  std::vector<Placed> found;
  for (const std::size_t object : ways.order) {
    if (is_listed(graph[object])) found.push_back({object, ways.path(object)});
  }
  std::vector<bool> is_slot(graph.size());
  for (const std::size_t object : ways.order) {
    for (const Slot& slot : graph[object].slots) {
      if (is_slot[slot.variable]) refuse(slot.name);
      if (ways.has(slot.object) || is_slot[slot.object] || !ways.has(slot.variable)) continue;
      is_slot[slot.object] = true;
      std::string path = ways.path(object);
      for (const std::string& part : {std::string(view(slot.name)), ways.path(slot.variable)}) {
        if (!path.empty() && !part.empty()) path += '/';
        path += part;
      }
      if (is_listed(graph[slot.object])) found.push_back({slot.object, std::move(path)});
    }
  }
  Texts paths;
  for (const Placed& each : found) {
    const Span path{reinterpret_cast<const std::uint8_t*>(each.path.data()), each.path.size(), nullptr};
    if (!paths.add(path).is_new) refuse(path);
  }
  return found;
}

namespace {

// Children by name and slots by variable and name, made once for each object that is asked for.
class Index {
 public:
  explicit Index(const Graph& graph) : graph_(graph), names_(graph.size()), slots_(graph.size()) {}

  std::optional<std::size_t> child(std::size_t object, Span name) {
    const std::vector<Child>& children = graph_[object].children;
    Texts& names = names_[object];
    if (names.size() == 0) {
      for (const Child& each : children) names.add(each.name);
    }
    const auto found = names.find(name);
    if (!found) return std::nullopt;
    return children[*found].object;
  }

  // The last of those that have the same variable and name.
  std::optional<std::size_t> slot(std::size_t object, std::size_t variable, Span name) {
    const std::vector<Slot>& slots = graph_[object].slots;
    std::vector<Key>& keys = slots_[object];
    if (keys.empty()) {
      for (std::size_t i = 0; i < slots.size(); ++i) {
        keys.emplace_back(slots[i].variable, view(slots[i].name), i);
      }
      std::sort(keys.begin(), keys.end());
    }
    const auto after =
        std::lower_bound(keys.begin(), keys.end(), Key(variable, view(name), slots.size()));
    if (after == keys.begin()) return std::nullopt;
    const auto& [found, text, place] = *(after - 1);
    if (found != variable || text != view(name)) return std::nullopt;
    return slots[place].object;
  }

 private:
  using Key = std::tuple<std::size_t, std::string_view, std::size_t>;

  const Graph& graph_;
  std::vector<Texts> names_;
  std::vector<std::vector<Key>> slots_;
};

}  // namespace

std::vector<std::optional<std::size_t>> match(const Graph& saved, const Graph& tracked) {
  std::vector<std::optional<std::size_t>> twins(saved.size());
  if (saved.empty() || tracked.empty()) return twins;
  Index index(tracked);
  twins[0] = 0;
  std::vector<std::size_t> queue{0};
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const std::size_t twin = *twins[queue[at]];
    for (const Child& child : saved[queue[at]].children) {
      if (twins[child.object]) continue;
      twins[child.object] = index.child(twin, child.name);
      if (twins[child.object]) queue.push_back(child.object);
    }
  }
  for (const std::size_t object : queue) {
    for (const Slot& slot : saved[object].slots) {
      if (!twins[slot.variable] || twins[slot.object]) continue;
      twins[slot.object] = index.slot(*twins[object], *twins[slot.variable], slot.name);
    }
  }
  return twins;
}

Variable read_variable(Span message) {
  const Record record = read_record(message, bits({1, 3}), bits({6}), bits({2}));
  return {record.numbers[1], record.bytes[2], record.has(2), record.numbers[3] != 0,
          record.bytes[6]};
}

}  // namespace ferry::objects
