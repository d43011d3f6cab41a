// Copyright the trcore authors. SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <system_error>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "trcore/ring_owner.hpp"

namespace py = pybind11;

namespace trcore::python {
namespace {

using Nanoseconds = std::chrono::nanoseconds;
using Clock = Wakeup::Clock;

// Between looks at Ctrl-C and at the consumer's life.
constexpr Nanoseconds kSlice = std::chrono::milliseconds(100);

// The contiguous bytes of an object with the buffer protocol, for as long as this lives.
class Bytes {
public:
    explicit Bytes(py::handle object) {
        if (PyBytes_CheckExact(object.ptr())) {  // the common case, without a buffer request
            data_ = PyBytes_AS_STRING(object.ptr());
            size_ = static_cast<std::size_t>(PyBytes_GET_SIZE(object.ptr()));
            return;
        }
        if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) {
            throw py::error_already_set();
        }
        held_ = true;
        data_ = buffer_.buf;
        size_ = static_cast<std::size_t>(buffer_.len);
    }
    Bytes(const Bytes&) = delete;
    Bytes& operator=(const Bytes&) = delete;
    ~Bytes() { if (held_) PyBuffer_Release(&buffer_); }
    [[nodiscard]] std::span<const std::byte> span() const noexcept {
        return {static_cast<const std::byte*>(data_), size_};
    }

private:
    Py_buffer buffer_{};
    bool held_ = false;
    const void* data_ = nullptr;
    std::size_t size_ = 0;
};

Clock::time_point deadline_after(double seconds) {
    if (std::isnan(seconds) || seconds < 0) {
        throw std::invalid_argument("timeout: must be 0 or more seconds, not " +
                                    std::to_string(seconds));
    }
    if (seconds > 1e9) return Clock::time_point::max();
    return Clock::now() + std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
}

// Calls wait(slice) with the GIL released until it is true or the deadline has come. Safe: `wait`
// touches only the ring, which the caller's shared_ptr keeps mapped, whoever closes it meanwhile;
// no Python object is read or made.
template <class Wait, class GiveUp>
bool wait_in_slices(Clock::time_point deadline, Wait&& wait, GiveUp&& give_up) {
    for (;;) {
        Nanoseconds left = Nanoseconds::max();  // no deadline, no look at the clock
        if (deadline != Clock::time_point::max()) {
            left = std::max(Nanoseconds(deadline - Clock::now()), Nanoseconds(0));
        }
        bool done = false;
        {
            const py::gil_scoped_release unlocked;
            done = wait(std::min(left, kSlice));
        }
        if (done) return true;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        if (left <= kSlice || give_up()) return false;
    }
}

class Ring {
public:
    explicit Ring(std::shared_ptr<RingOwner> owner) : owner_(std::move(owner)), name_(owner_->name()) {}

    bool push(py::handle record) {
        const Bytes bytes(record);
        // With the GIL held: a copy of a few bytes costs less than giving it up.
        return open("push")->producer().push(bytes.span());
    }

    std::size_t push_many(const py::sequence& records, double timeout) {
        const auto owner = open("push_many");  // keeps the memory during the wait
        PeerRing& ring = owner->producer();
        const auto deadline = deadline_after(timeout);
        const std::size_t count = records.size();
        std::size_t done = 0;
        const auto notify = [&ring, &done] { if (done != 0) ring.notify_consumer(); };
        try {
            while (done < count) {
                const py::object record = records[done];
                const Bytes bytes(record);
                if (ring.push_quietly(bytes.span())) {
                    ++done;
                    continue;
                }
                if (timeout == 0) break;
                ring.notify_consumer();  // what is in already, or it will never make room
                const std::size_t size = bytes.span().size();
                if (!wait_in_slices(deadline,
                        [&](Nanoseconds slice) { return ring.wait_for_room(size, slice); },
                        [&] { return closed_ || !owner->consumer_is_alive(); })) {
                    break;
                }
                owner->producer();  // throws if the consumer has closed
            }
        } catch (...) {
            notify();
            throw;
        }
        notify();
        return done;
    }

    py::list drain(std::size_t max_records) {
        const auto owner = open("drain");
        PeerRing& ring = owner->consumer();
        if (draining_) throw std::runtime_error("PeerRing.drain: another thread is draining this ring");
        // The GIL guards this flag; making objects below may run a finalizer that gives it up.
        draining_ = true;
        struct Reset { bool& flag; ~Reset() { flag = false; } } reset{draining_};
        py::list records;
        try {
            ring.drain(max_records, [&records](const RecordView& view) {
                auto bytes = py::reinterpret_steal<py::bytes>(
                    PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(view.size())));
                if (!bytes) throw py::error_already_set();
                view.copy_to(PyBytes_AS_STRING(bytes.ptr()));
                if (PyList_Append(records.ptr(), bytes.ptr()) != 0) throw py::error_already_set();
            });
        } catch (py::error_already_set&) {
            if (records.empty()) throw;
            // Out of memory half way: give what was taken, the rest stays in the ring.
        }
        return records;
    }

    bool wait(std::optional<double> timeout) {
        const auto owner = open("wait");
        PeerRing& ring = owner->consumer();
        const auto deadline = timeout ? deadline_after(*timeout) : Clock::time_point::max();
        if (ring.ready()) return true;  // the GIL isn't worth giving up
        if (wait_in_slices(deadline, [&ring](Nanoseconds slice) { return ring.wait(slice); },
                           [this] { return closed_; })) {
            return true;
        }
        if (!timeout) throw std::invalid_argument("PeerRing.wait: the ring was closed");
        return false;
    }

    void wake() { open("wake")->ring().wake(); }

    void close() {
        if (closed_) return;
        closed_ = true;
        // Threads that wait hold the memory through their own shared_ptr; the last one frees it.
        owner_->close();
        owner_.reset();
    }

    std::uint64_t capacity_bytes() { return open("capacity_bytes")->ring().capacity_bytes(); }
    std::uint64_t max_record_bytes() { return open("max_record_bytes")->ring().max_record_bytes(); }
    std::uint64_t abandoned() { return open("abandoned")->ring().abandoned(); }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] std::string repr() const {
        return "<trcore.PeerRing " + (name_.empty() ? std::string("heap") : name_) +
               (closed_ ? ", closed>" : ">");
    }

private:
    std::shared_ptr<RingOwner> open(const char* call) const {
        if (closed_) throw std::invalid_argument(std::string("PeerRing.") + call + ": the ring is closed");
        return owner_;
    }

    // All guarded by the GIL.
    std::shared_ptr<RingOwner> owner_;
    std::string name_;
    bool closed_ = false;
    bool draining_ = false;
};

void translate(std::exception_ptr error) {
    try {
        if (error) std::rethrow_exception(error);
    } catch (const SegmentMissing& e) {
        py::set_error(PyExc_FileNotFoundError, e.what());
    } catch (const SegmentExists& e) {
        py::set_error(PyExc_FileExistsError, e.what());
    } catch (const SegmentMismatch& e) {
        py::set_error(PyExc_ValueError, e.what());
    } catch (const SegmentOrphaned& e) {
        py::set_error(PyExc_ConnectionRefusedError, e.what());
    } catch (const ConsumerGone& e) {
        py::set_error(PyExc_BrokenPipeError, e.what());
    } catch (const std::system_error& e) {
        const py::object args = py::make_tuple(e.code().value(), e.what());
        PyErr_SetObject(PyExc_OSError, args.ptr());
    } catch (const std::logic_error& e) {
        // pybind11 knows its children (invalid_argument, out_of_range): only the bare one is ours.
        if (typeid(e) != typeid(std::logic_error)) throw;
        py::set_error(PyExc_RuntimeError, e.what());
    }
}

}  // namespace

void bind_peer_ring(py::module_& module) {
    py::register_local_exception_translator(&translate);
    // Ring owns no thread, so its destructor needs no released GIL.
    py::class_<Ring>(module, "PeerRing")
        .def_static("heap", [](std::uint64_t n) { return Ring(RingOwner::heap(n)); },
                    py::arg("capacity_bytes"))
        .def_static("create", [](const std::string& name, std::uint64_t n) {
            return Ring(RingOwner::create(name, n)); }, py::arg("name"), py::arg("capacity_bytes"))
        .def_static("attach", [](const std::string& name) { return Ring(RingOwner::attach(name)); },
                    py::arg("name"))
        .def("push", &Ring::push, py::arg("record"))
        .def("push_many", &Ring::push_many, py::arg("records"), py::arg("timeout") = 0.0)
        .def("drain", &Ring::drain, py::arg("max_records") = 0)
        .def("wait", &Ring::wait, py::arg("timeout"))
        .def("wake", &Ring::wake)
        .def("close", &Ring::close)
        .def_property_readonly("capacity_bytes", &Ring::capacity_bytes)
        .def_property_readonly("max_record_bytes", &Ring::max_record_bytes)
        .def_property_readonly("abandoned", &Ring::abandoned)
        .def_property_readonly("name", &Ring::name)
        .def("__enter__", [](py::object self) { return self; })
        .def("__exit__", [](Ring& self, const py::args&) { self.close(); })
        .def("__repr__", &Ring::repr);
    module.def("remove_stale_segments", &ShmSegment::remove_stale);
}

}  // namespace trcore::python
