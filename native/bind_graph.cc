// Graphs of SavedModels: nodes and functions, and objects.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <array>
#include <map>
#include <string_view>
#include <tuple>

#include "core/graph.h"
#include "core/objects.h"
#include "messages.h"

namespace ferry::python {

namespace {

// An attribute: its key, which field its value is, and where; a number is in the place of the start.
nb::tuple to_tuple(const graph::Attribute& attribute) {
  const Field& value = attribute.value;
  const std::uint32_t number = value.tag.field;
  const bool placed = number != 0 && value.tag.wire == Wire::bytes;
  const std::uint64_t start = placed ? value.bytes.offset() : value.value;
  return nb::make_tuple(read_text(attribute.key), number, start,
                        placed ? start + value.bytes.size : value.tag.offset);
}

// Texts of Python's, which `held` keeps.
Texts to_texts(nb::tuple texts, std::vector<std::string>& held) {
  held.reserve(texts.size());
  Texts found;
  for (nb::handle each : texts) {
    const std::string& text = held.emplace_back(nb::cast<std::string>(each));
    found.add({reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr});
  }
  return found;
}

// The ops that are looked at, and the attributes of watched nodes that are given.
class Looked {
 public:
  Looked(nb::tuple variables, nb::tuple watched, nb::tuple attributes)
      : ops{to_texts(variables, held_[0]), to_texts(watched, held_[1])},
        keys(to_texts(attributes, held_[2])) {}

 private:
  std::array<std::vector<std::string>, 3> held_;

 public:
  const graph::Ops ops;
  const Texts keys;
};

template <typename Number>
nb::bytes to_table(const std::vector<Number>& numbers) {
  return nb::bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
}

nb::bytes places_of(const std::vector<graph::Constant>& constants) {
  std::vector<std::uint64_t> places;
  places.reserve(4 * constants.size());
  for (const auto& [name, tensor] : constants) {
    for (const Span part : {name, tensor}) {
      places.push_back(part.offset());
      places.push_back(part.offset() + part.size);
    }
  }
  return to_table(places);
}

nb::bytes places_of(const std::vector<graph::Variable>& variables) {
  std::vector<std::uint64_t> places;
  places.reserve(4 * variables.size());
  for (const auto& [node, dtype, offset] : variables) {
    for (const std::uint64_t each : {node.offset(), node.offset() + node.size, dtype, offset}) {
      places.push_back(each);
    }
  }
  return to_table(places);
}

nb::list attributes_of(const graph::Node& node, const Texts& keys) {
  nb::list wanted;
  for (const graph::Attribute& each : node.attributes) {
    if (keys.has(each.key)) wanted.append(to_tuple(each));
  }
  return wanted;
}

nb::list to_list(const std::vector<graph::Named>& named) {
  return make_list(named.size(), [&](std::size_t i) -> nb::object {
    return nb::make_tuple(read_text(named[i].text), named[i].count);
  });
}

// What is given of nodes beside their ops.
nb::tuple to_tuple(const graph::Nodes& nodes, const Texts& keys) {
  nb::list watched;
  for (const graph::Node& node : nodes.watched) {
    watched.append(nb::make_tuple(read_text(node.op), attributes_of(node, keys)));
  }
  return nb::make_tuple(nodes.count, places_of(nodes.constants), places_of(nodes.variables), watched);
}

nb::tuple graph_nodes(nb::handle source, std::uint64_t start, std::uint64_t end,
                      std::uint32_t field, nb::tuple variables, nb::tuple watched,
                      nb::tuple attributes, std::int64_t depth) {
  const Buffer buffer(source);
  const Looked looked(variables, watched, attributes);
  const Span span = buffer.span(start, end);
  const graph::Nodes nodes = [&] {
    const Unlocked unlocked;
    return graph::walk(span, field, looked.ops, depth);
  }();
  return nb::make_tuple(to_list(nodes.named), to_tuple(nodes, looked.keys));
}

nb::tuple graph_functions(nb::handle source, nb::list spans, nb::tuple variables, nb::tuple watched,
                          nb::tuple attributes, std::int64_t depth) {
  const Buffer buffer(source);
  const Looked looked(variables, watched, attributes);
  std::vector<Span> messages;
  for (nb::handle each : copy_of(spans)) {
    const auto place = nb::cast<std::pair<std::uint64_t, std::uint64_t>>(each);
    messages.push_back(buffer.span(place.first, place.second));
  }
  const graph::Library library = [&] {
    const Unlocked unlocked;
    return graph::walk_functions(messages, looked.ops, depth);
  }();
  const auto& functions = library.functions;
  const nb::list names = make_list(functions.size(), [&](std::size_t i) -> nb::object {
    return read_text(functions[i].name);
  });
  const nb::list found = make_list(functions.size(), [&](std::size_t i) -> nb::object {
    const graph::Function& each = functions[i];
    const nb::tuple calls = make_tuple(each.calls.size(), [&](std::size_t place) {
      return nb::borrow(item_of_list(names.ptr(), each.calls[place]));
    });
    const nb::tuple dtypes = make_tuple(
        each.dtypes.size(), [&](std::size_t place) { return to_integer(each.dtypes[place]); });
    return nb::make_tuple(nb::borrow(item_of_list(names.ptr(), i)), each.signature.offset(),
                          to_bytes(each.signature), dtypes, calls,
                          to_tuple(each.nodes, looked.keys));
  });
  return nb::make_tuple(to_list(library.ops), found);
}

nb::tuple node_attributes(nb::handle source, std::uint64_t start, std::uint64_t end, nb::tuple keys,
                          std::int64_t depth) {
  const Buffer buffer(source);
  std::vector<std::string> held;
  const Texts wanted = to_texts(keys, held);
  graph::NodeReader reader(depth);
  const graph::Node& node = reader.read(buffer.span(start, end));
  return nb::make_tuple(read_text(node.name), attributes_of(node, wanted));
}

nb::list node_functions(nb::handle source, std::uint64_t start, std::uint64_t end,
                        std::int64_t depth) {
  const Buffer buffer(source);
  graph::NodeReader reader(depth);
  nb::list names;
  for (const Span name : reader.read(buffer.span(start, end)).functions) {
    names.append(read_text(name));
  }
  return names;
}

// Objects

// Numbers the dtypes and shapes of variables, each pair once.
class Kinds {
 public:
  std::size_t add(const objects::Variable& variable, Span message) {
    const auto [found, is_new] = numbers_.try_emplace(
        {variable.dtype, variable.has_shape, view(variable.shape)}, numbers_.size());
    if (is_new) {
      const std::uint64_t start = variable.shape.offset();
      nb::object shape = nb::none();
      if (variable.has_shape) shape = nb::make_tuple(start, start + variable.shape.size);
      list.append(nb::make_tuple(variable.dtype, message.offset(), shape));
    }
    return found->second;
  }

  nb::list list;

 private:
  std::map<std::tuple<std::uint64_t, bool, std::string_view>, std::size_t> numbers_;
};

// The objects of a checkpoint, parsed once.
class TrackedObjects {
 public:
  TrackedObjects(nb::handle source, std::size_t most)
      : buffer_(source), graph(objects::read_tracked(buffer_.span(), most)) {}

 private:
  Buffer buffer_;

 public:
  const objects::Graph graph;
};

// The objects of a SavedModel, parsed once, and the paths of those that are listed.
class SavedObjects {
 public:
  SavedObjects(nb::handle source, std::uint64_t start, std::uint64_t end, std::size_t most,
               std::uint64_t room)
      : buffer_(source),
        graph_(objects::read_saved(buffer_.span(start, end), most)),
        placed_(objects::find_paths(graph_, room)),
        paths_(make_list(placed_.size(), [&](std::size_t i) -> nb::object {
          const std::string& path = placed_[i].path;
          return nb::str(path.data(), path.size());
        })) {
    for (const auto& [number, path] : placed_) {
      const objects::Object& object = graph_[number];
      const bool is_variable = object.kind == objects::variable_kind;
      variables_.push_back(is_variable ? objects::read_variable(object.value) : objects::Variable{});
    }
  }

  nb::tuple list() const {
    std::array<std::uint64_t, 16> counts{};
    for (const objects::Object& object : graph_) ++counts[object.kind];
    Kinds kinds;
    nb::list variables, functions;
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const objects::Object& object = graph_[placed_[i].object];
      const Span value = object.value;
      if (object.kind == objects::variable_kind) {
        const objects::Variable& variable = variables_[i];
        variables.append(nb::make_tuple(path(i), read_text(variable.name),
                                        kinds.add(variable, value), variable.trainable));
      } else {
        functions.append(nb::make_tuple(path(i), object.kind, value.offset(),
                                        value.offset() + value.size));
      }
    }
    const nb::list counted =
        make_list(counts.size(), [&](std::size_t kind) { return to_integer(counts[kind]); });
    return nb::make_tuple(counted, variables, kinds.list, functions);
  }

  nb::dict match(const TrackedObjects& tracked) const {
    const auto twins = objects::match(graph_, tracked.graph);
    nb::dict keys;
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const std::size_t number = placed_[i].object;
      if (graph_[number].kind != objects::variable_kind || !twins[number]) continue;
      const objects::Object& twin = tracked.graph[*twins[number]];
      if (twin.has_key) keys[path(i)] = read_text(twin.key);
    }
    return keys;
  }

 private:
  nb::object path(std::size_t place) const { return nb::borrow(item_of_list(paths_.ptr(), place)); }

  Buffer buffer_;
  const objects::Graph graph_;
  const std::vector<objects::Placed> placed_;
  std::vector<objects::Variable> variables_;  // of what is placed; empty where that is a function
  const nb::list paths_;
};

// None where an object graph is not of the usual form.
template <typename Objects, typename... Arguments>
nb::object unless_unusual(Arguments... arguments) {
  try {
    return nb::cast(new Objects(arguments...), nb::rv_policy::take_ownership);
  } catch (const Error&) {
    return nb::none();
  }
}

}  // namespace

void bind_graph(nb::module_& module) {
  module.def("graph_nodes", graph_nodes, "source"_a, "start"_a, "end"_a, nb::kw_only(), "field"_a,
             "variables"_a, "watched"_a, "attributes"_a, "depth"_a,
             "The nodes in a field of a message: ops and functions, with the number of nodes that "
             "have them as op, and (number of nodes, places of names and tensors of constants, "
             "places and dtypes of variables, watched nodes with some of their attributes).");
  module.def("graph_functions", graph_functions, "source"_a, "spans"_a, nb::kw_only(),
             "variables"_a, "watched"_a, "attributes"_a, "depth"_a,
             "The functions of a library: the ops of their nodes with their numbers, and of each "
             "function (name, place and bytes of the signature, dtypes in it, names of functions "
             "that it calls, what `graph_nodes` gives of its nodes).");
  module.def("node_attributes", node_attributes, "source"_a, "start"_a, "end"_a, nb::kw_only(),
             "keys"_a, "depth"_a, "The name of a node, and some of its attributes.");
  module.def("node_functions", node_functions, "source"_a, "start"_a, "end"_a, nb::kw_only(),
             "depth"_a, "The functions that the attributes of a node name.");
  nb::class_<TrackedObjects>(module, "TrackedObjects", "The objects of a checkpoint.");
  nb::class_<SavedObjects>(module, "SavedObjects", "The objects of a SavedModel.")
      .def("list", &SavedObjects::list,
           "Number of objects by the field that says what they are, variables as (path, name, "
           "kind, whether it is trainable), kinds as (dtype, offset, place of the shape), functions "
           "as (path, field, start, end).")
      .def("match", &SavedObjects::match, "tracked"_a,
           "The keys of the variables in the checkpoint, by path.");
  module.def("saved_objects", unless_unusual<SavedObjects, nb::handle, std::uint64_t, std::uint64_t,
                                             std::size_t, std::uint64_t>,
             "source"_a, "start"_a, "end"_a, nb::kw_only(), "most"_a, "room"_a,
             "The objects of a SavedModel; None for an unusual one.");
  module.def("tracked_objects", unless_unusual<TrackedObjects, nb::handle, std::size_t>, "source"_a,
             nb::kw_only(), "most"_a, "The objects of a checkpoint; None for an unusual one.");
}

}  // namespace ferry::python
