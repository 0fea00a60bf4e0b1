// Object graphs of TensorFlow: objects that name each other, and are found from the root.
//
//     SavedObjectGraph      1 nodes: 1 children | 3 slot_variables | 4 .. 12 what the object is
//     TrackableObjectGraph  1 nodes: 1 children | 2 attributes | 3 slot_variables
//     ObjectReference       1 node_id | 2 local_name
//     SlotVariableReference 1 original_variable_node_id | 2 slot_name | 3 slot_variable_node_id
//     SerializedTensor      1 name | 2 full_name | 3 checkpoint_key
//
// The first is a SavedModel's and says what objects are, the second a checkpoint's and says which
// tensors they have. Graphs of the usual form are read here; an Error means nothing but that the
// readers in Python (formats/savedmodel/objects.py, formats/checkpoint/graph.py) have to look.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text.h"

namespace ferry::objects {

struct Child {
  Span name;
  std::size_t object;
};

// What an optimizer keeps for a variable.
struct Slot {
  std::size_t variable;
  Span name;
  std::size_t object;
};

struct Object {
  std::vector<Child> children;  // no two of one name
  std::vector<Slot> slots;
  std::uint32_t kind = 0;  // the field that says what a saved object is; 0 if none does
  Span value;              // of that field
  Span key;                // of the tensor that is the value of a tracked object
  bool has_key = false;
};

using Graph = std::vector<Object>;

// The graph of a SavedModel, or of a checkpoint, of no more than `most` objects.
Graph read_saved(Span message, std::size_t most);
Graph read_tracked(Span message, std::size_t most);

// An object, and the names on the way to it: "layer/kernel".
struct Placed {
  std::size_t object;
  std::string path;
};

// The variables and functions, no two of one path, the nearest first and slots last. Their paths have
// no more than `room` bytes.
std::vector<Placed> find_paths(const Graph& graph, std::uint64_t room);

// Of each object of a SavedModel, the one of its checkpoint to which the same names lead.
std::vector<std::optional<std::size_t>> match(const Graph& saved, const Graph& tracked);

// Fields of SavedObject.
inline constexpr std::uint32_t function_kind = 6, variable_kind = 7, bare_function_kind = 8;

// What a SavedVariable says.
struct Variable {
  std::uint64_t dtype = 0;
  Span shape;
  bool has_shape = false;
  bool trainable = false;
  Span name;
};

Variable read_variable(Span message);

}  // namespace ferry::objects
