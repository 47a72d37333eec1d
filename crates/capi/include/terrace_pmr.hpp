// Terrace for C++17: RAII ledgers, regions and heaps, errors as exceptions, and a
// std::pmr::memory_resource over a heap.
//
//     terrace::region region = terrace::region::scratch("/mnt/nvme", 1ull << 34, options);
//     terrace::heap_resource resource(terrace::heap::in(region));
//     std::pmr::unordered_map<int, std::pmr::string> map(&resource);
//
// Memory of a heap is invalid after the heap ends: declare containers after their resource.

#ifndef TERRACE_PMR_HPP
#define TERRACE_PMR_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "terrace.h"

namespace terrace {

/// Failure of a call: its status and text.
class error : public std::runtime_error {
public:
    error(terrace_status status, const char *text) : std::runtime_error(text), status_(status) {}

    terrace_status status() const noexcept { return status_; }

private:
    terrace_status status_;
};

/// Throws this thread's last failure unless the status is TERRACE_STATUS_OK.
inline void check(terrace_status status) {
    if (status != TERRACE_STATUS_OK) {
        throw error(status, terrace_last_error());
    }
}

/// Passes every message of the library to a function object, which takes a level, the module and
/// the text, must not throw, and must live until another is set or `stop_log` was called. Any
/// thread calls it.
template <typename Function> void set_log(Function &function) {
    const terrace_log_function call = [](void *context, std::uint32_t level, const char *target,
                                         const char *message) {
        (*static_cast<Function *>(context))(static_cast<terrace_log_level>(level), target, message);
    };
    check(terrace_set_log(call, &function));
}

/// Removes the function object; messages are dropped from now on.
inline void stop_log() { check(terrace_set_log(nullptr, nullptr)); }

namespace detail {

struct closer {
    void operator()(terrace_ledger *ledger) const noexcept { terrace_ledger_free(ledger); }
    void operator()(terrace_region *region) const noexcept { (void)terrace_region_close(region); }
    void operator()(terrace_pin *pin) const noexcept { terrace_region_unpin(pin); }
    void operator()(terrace_heap *heap) const noexcept { terrace_heap_close(heap); }
    void operator()(terrace_objects *objects) const noexcept {
        (void)terrace_objects_close(objects);
    }
    void operator()(terrace_lock *lock) const noexcept { terrace_objects_unlock(lock); }
};

template <typename T> using handle = std::unique_ptr<T, closer>;

} // namespace detail

/// A budget that several regions and heaps share; they keep it alive.
class ledger {
public:
    explicit ledger(std::uint64_t budget_bytes) {
        terrace_ledger *made = nullptr;
        check(terrace_ledger_new(budget_bytes, &made));
        handle_.reset(made);
    }

    std::uint64_t budget() const noexcept { return terrace_ledger_budget(get()); }
    std::uint64_t granted() const noexcept { return terrace_ledger_granted(get()); }

    /// Returns the handle, for the options of regions and heaps.
    const terrace_ledger *get() const noexcept { return handle_.get(); }

private:
    detail::handle<terrace_ledger> handle_;
};

/// A part of a region that stays in memory for as long as this lives.
class pin {
public:
    explicit pin(terrace_pin *owned) noexcept : handle_(owned) {}

    void *data() const noexcept { return terrace_pin_data(handle_.get()); }
    std::size_t size() const noexcept { return terrace_pin_len(handle_.get()); }

private:
    detail::handle<terrace_pin> handle_;
};

/// Memory whose blocks are stored in a file. It lives as long as this, a pin or a heap of it.
class region {
public:
    /// Opens a region over an existing file; len 0 means all of it.
    static region open(const std::string &path, const terrace_region_options &options,
                       std::uint64_t offset = 0, std::uint64_t len = 0) {
        terrace_region *made = nullptr;
        check(terrace_region_open(path.c_str(), offset, len, &options, &made));
        return region(made);
    }

    /// Creates a region over an unnamed file in a directory, all zero.
    static region scratch(const std::string &directory, std::uint64_t len,
                          const terrace_region_options &options) {
        terrace_region *made = nullptr;
        check(terrace_region_scratch(directory.c_str(), len, &options, &made));
        return region(made);
    }

    void *data() const noexcept { return terrace_region_data(get()); }
    std::size_t size() const noexcept { return terrace_region_len(get()); }
    std::size_t block_bytes() const noexcept { return terrace_region_block_bytes(get()); }

    terrace::pin pin(std::uint64_t offset, std::uint64_t len) const {
        terrace_pin *made = nullptr;
        check(terrace_region_pin(get(), offset, len, &made));
        return terrace::pin(made);
    }

    void prefetch(std::uint64_t offset, std::uint64_t len) const {
        check(terrace_region_prefetch(get(), offset, len));
    }
    void evict(std::uint64_t offset, std::uint64_t len) const {
        check(terrace_region_evict(get(), offset, len));
    }
    void flush(std::uint64_t offset, std::uint64_t len) const {
        check(terrace_region_flush(get(), offset, len));
    }
    void flush() const { flush(0, size()); }
    void advise(std::uint64_t offset, std::uint64_t len, terrace_advice advice) const {
        check(terrace_region_advise(get(), offset, len, advice));
    }
    void set_cap(std::uint64_t bytes) const { check(terrace_region_set_cap(get(), bytes)); }

    terrace_region_stats stats() const {
        terrace_region_stats stats;
        check(terrace_region_get_stats(get(), &stats));
        return stats;
    }

    /// Closes the region as the destructor does, but throws terrace::error if the file did not take
    /// the writes.
    void close() { check(terrace_region_close(handle_.release())); }

    terrace_region *get() const noexcept { return handle_.get(); }

private:
    explicit region(terrace_region *owned) noexcept : handle_(owned) {}

    detail::handle<terrace_region> handle_;
};

/// An allocator over DRAM, a node or a region. All of its memory is freed when it ends.
class heap {
public:
    static heap dram(std::size_t bytes,
                     const terrace_heap_options &options = terrace_heap_options_default()) {
        terrace_heap *made = nullptr;
        check(terrace_heap_dram(bytes, &options, &made));
        return heap(made);
    }

    static heap on_node(std::uint32_t node, std::size_t bytes,
                        const terrace_heap_options &options = terrace_heap_options_default()) {
        terrace_heap *made = nullptr;
        check(terrace_heap_node(node, bytes, &options, &made));
        return heap(made);
    }

    /// Creates a heap in a part of a region that no other code uses; 0 bytes mean all up to its
    /// end.
    static heap in(const region &below, std::size_t offset = 0, std::size_t bytes = 0,
                   const terrace_heap_options &options = terrace_heap_options_default()) {
        terrace_heap *made = nullptr;
        check(terrace_heap_region(below.get(), offset, bytes, &options, &made));
        return heap(made);
    }

    /// Allocates an object; throws terrace::error if there is no room.
    void *allocate(std::size_t size, std::size_t align = alignof(std::max_align_t)) const {
        void *object = terrace_heap_alloc(get(), size, align);
        if (object == nullptr) {
            throw error(terrace_last_status(), terrace_last_error());
        }
        return object;
    }

    void free(void *object) const { check(terrace_heap_free(get(), object)); }

    bool contains(const void *address) const noexcept {
        return terrace_heap_contains(get(), address);
    }

    void trim() const { check(terrace_heap_trim(get())); }

    /// Frees every object at once.
    void reset() const { check(terrace_heap_reset(get())); }

    terrace_heap_stats stats() const {
        terrace_heap_stats stats;
        check(terrace_heap_get_stats(get(), &stats));
        return stats;
    }

    terrace_heap *get() const noexcept { return handle_.get(); }

private:
    explicit heap(terrace_heap *owned) noexcept : handle_(owned) {}

    detail::handle<terrace_heap> handle_;
};

/// A memory resource of std::pmr containers, over a heap that it owns or borrows. Two resources are
/// equal if their heap is the same: either may free the memory of the other.
class heap_resource final : public std::pmr::memory_resource {
public:
    /// Owns the heap, which ends with the resource, and with it all of its memory.
    explicit heap_resource(heap &&owned) : owned_(std::move(owned)), heap_(owned_->get()) {}

    /// Borrows a heap that outlives the resource.
    explicit heap_resource(const heap &borrowed) noexcept : heap_(borrowed.get()) {}

    /// Borrows a heap that was created in C and outlives the resource.
    explicit heap_resource(const terrace_heap *borrowed) noexcept : heap_(borrowed) {}

    heap_resource(const heap_resource &) = delete;
    heap_resource &operator=(const heap_resource &) = delete;

    const terrace_heap *get() const noexcept { return heap_; }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *object = terrace_heap_alloc(heap_, bytes, alignment);
        if (object == nullptr) {
            throw std::bad_alloc();
        }
        return object;
    }

    void do_deallocate(void *object, std::size_t bytes, std::size_t alignment) override {
        (void)terrace_heap_free_sized(heap_, object, bytes, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        const auto *same = dynamic_cast<const heap_resource *>(&other);
        return same != nullptr && same->heap_ == heap_;
    }

    std::optional<heap> owned_;
    const terrace_heap *heap_;
};

} // namespace terrace

#endif // TERRACE_PMR_HPP
