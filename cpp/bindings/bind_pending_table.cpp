// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <pybind11/native_enum.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "trcore/pending_table.hpp"

namespace py = pybind11;

namespace trcore::python {
namespace {

std::uint32_t narrow(const char* name, std::int64_t value) {
    if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
        throw std::invalid_argument(std::string(name) + ": must be 0 to 2**32 - 1, not " +
                                    std::to_string(value));
    }
    return static_cast<std::uint32_t>(value);
}

std::size_t expire(const PendingTable& table, double now, const py::array& out) {
    if (!out.dtype().is(py::dtype::of<Handle>()) || out.ndim() != 1 || !out.writeable() ||
        !(out.flags() & py::array::c_style)) {
        throw py::value_error("out: must be a writable, contiguous, one-dimensional int64 array");
    }
    auto* data = static_cast<Handle*>(const_cast<void*>(out.data()));
    const auto room = static_cast<std::size_t>(out.size());
    // A loop over all slots. Safe without the GIL: it reads atomics of the table and writes to
    // the array's memory; the call's arguments keep both alive.
    const py::gil_scoped_release unlocked;
    return table.expire(now, {data, room});
}

// Keeps the GIL, as everything here but `expire`: subservers count at every turn, and to get the
// lock back from another of them costs a hundred times what the loop does.
py::tuple counts(const PendingTable& table) {
    const PendingTable::Counts c = table.counts();
    return py::make_tuple(c.free, c.running, c.pending, c.finished);
}

}  // namespace

void bind_pending_table(py::module_& module) {
    py::native_enum<State>(module, "State", "enum.IntEnum")
        .value("FREE", State::free)
        .value("RUNNING", State::running)
        .value("PENDING", State::pending)
        .value("FINISHED", State::finished)
        .value("STALE", State::stale)
        .finalize();
    constexpr double kNever = std::numeric_limits<double>::infinity();
    // Everything but `expire` keeps the GIL: a few atomic operations cost less than it.
    py::class_<PendingTable>(module, "PendingTable")
        .def(py::init([](std::int64_t slots, std::int64_t peers) {
            return std::make_unique<PendingTable>(narrow("slots", slots), narrow("peers", peers)); }),
            py::arg("slots"), py::arg("peers"))
        .def("allocate", &PendingTable::allocate, py::arg("state") = State::running,
             py::arg("deadline") = kNever)
        .def("adopt", &PendingTable::adopt, py::arg("handle"), py::arg("state"),
             py::arg("deadline") = kNever)
        .def("state", &PendingTable::state, py::arg("handle"))
        .def("transition", &PendingTable::transition, py::arg("handle"), py::arg("old"), py::arg("new"))
        .def("set_anchor", [](PendingTable& table, Handle handle, std::int64_t peer, std::int64_t loc) {
            return table.set_anchor(handle, narrow("peer", peer), narrow("loc", loc)); },
            py::arg("handle"), py::arg("peer"), py::arg("loc"))
        .def("anchor", [](const PendingTable& table, Handle handle, std::int64_t peer) {
            return table.anchor(handle, narrow("peer", peer)); }, py::arg("handle"), py::arg("peer"))
        .def("expire", &expire, py::arg("now"), py::arg("out"))
        .def("release", &PendingTable::release, py::arg("handle"))
        .def("counts", &counts)
        .def_static("slot", &PendingTable::slot_of, py::arg("handle"))
        .def_property_readonly("slots", &PendingTable::slots)
        .def_property_readonly("peers", &PendingTable::peers);
}

}  // namespace trcore::python
