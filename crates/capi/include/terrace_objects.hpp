// Terrace for C++17: stores of small objects, with locks and pins that give themselves back, and
// errors that are thrown.
//
//     terrace::objects store = terrace::objects::dram(8ull << 30);
//     terrace::object_id id = store.create("an object");
//     {
//         terrace::object_lock lock = store.lock(id, TERRACE_LOCK_MODE_WRITE);
//         lock.replace(lock.get() + " that is longer");
//     }
//     std::string now = store.get(id);
//
// Values that may be copied by their bytes are objects as well: create_value, get_value, put_value.

#ifndef TERRACE_OBJECTS_HPP
#define TERRACE_OBJECTS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "terrace.h"
#include "terrace_pmr.hpp"

namespace terrace {

/// Names an object of a store; 0 names none.
using object_id = std::uint64_t;

/// Waits until there is something to wait for no more.
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

namespace detail {

inline std::uint64_t timeout(std::chrono::milliseconds wait) noexcept {
    if (wait == forever) {
        return UINT64_MAX;
    }
    return wait.count() < 0 ? 0 : static_cast<std::uint64_t>(wait.count());
}

/// All bytes of an object, whose length `read` tells where there was too little room for them.
template <typename Read> void read_all(std::string &to, Read read) {
    char few[256];
    std::size_t len = 0;
    terrace_status status = read(few, sizeof few, &len);
    if (status == TERRACE_STATUS_OK) {
        to.assign(few, len);
        return;
    }
    while (status == TERRACE_STATUS_BUFFER) {
        // It may be longer again by the next time.
        to.resize(len);
        status = read(to.data(), to.size(), &len);
    }
    check(status);
    to.resize(len);
}

/// A value of as many bytes as the object that `read` reads.
template <typename T, typename Read> T read_value(Read read) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
                  "objects hold the bytes of values that may be copied by them");
    T value{};
    std::size_t len = 0;
    check(read(&value, sizeof value, &len));
    if (len != sizeof value) {
        const std::string text = "an object of " + std::to_string(len) + " bytes is no value of " +
                                 std::to_string(sizeof value);
        throw error(TERRACE_STATUS_LENGTH, text.c_str());
    }
    return value;
}

inline std::vector<terrace_bytes> bytes_of_all(const std::vector<std::string_view> &contents) {
    std::vector<terrace_bytes> all;
    all.reserve(contents.size());
    for (std::string_view bytes : contents) {
        all.push_back({bytes.data(), bytes.size()});
    }
    return all;
}

/// Of many objects, what fails for one is said of that one. This is what keeps all of them from
/// being looked at.
inline bool is_of_all(terrace_status status) noexcept {
    return status == TERRACE_STATUS_INVALID || status == TERRACE_STATUS_PANIC;
}

template <typename T> std::string_view bytes_of(const T &value) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                  "objects hold the bytes of values that may be copied by them");
    return {reinterpret_cast<const char *>(&value), sizeof value};
}

} // namespace detail

/// A lock of an object, given back when this ends. It keeps the store. No two threads use it at
/// once, but it may go from one to another.
///
/// The functions of the store wait for locks, those of the caller too: use these meanwhile.
class object_lock {
public:
    explicit object_lock(terrace_lock *owned) noexcept : handle_(owned) {}

    object_id object() const noexcept { return terrace_lock_object(get_handle()); }

    void get(std::string &to) const {
        detail::read_all(to, [this](void *buffer, std::size_t room, std::size_t *len) {
            return terrace_lock_get(get_handle(), buffer, room, len);
        });
    }
    std::string get() const {
        std::string bytes;
        get(bytes);
        return bytes;
    }
    template <typename T> T get_value() const {
        return detail::read_value<T>([this](void *buffer, std::size_t room, std::size_t *len) {
            return terrace_lock_get(get_handle(), buffer, room, len);
        });
    }

    void put(std::string_view bytes) {
        check(terrace_lock_put(get_handle(), bytes.data(), bytes.size()));
    }
    template <typename T> void put_value(const T &value) { put(detail::bytes_of(value)); }
    void replace(std::string_view bytes) {
        check(terrace_lock_replace(get_handle(), bytes.data(), bytes.size()));
    }
    void resize(std::size_t len) { check(terrace_lock_resize(get_handle(), len)); }
    /// Removes the object, and with it the lock.
    void remove() { check(terrace_lock_remove(get_handle())); }

    /// From reading to writing, without a gap. The lock for reading is kept where that fails.
    void upgrade(std::chrono::milliseconds wait = forever) {
        check(terrace_lock_upgrade(get_handle(), detail::timeout(wait)));
    }
    /// From writing to reading, without a gap.
    void downgrade() { check(terrace_lock_downgrade(get_handle())); }

    void unlock() noexcept { handle_.reset(); }

    terrace_lock *get_handle() const noexcept { return handle_.get(); }

private:
    detail::handle<terrace_lock> handle_;
};

/// An object that stays at its address until this ends, which is before its store does.
class object_pin {
public:
    object_pin(const terrace_objects *store, object_id object)
        : store_(store), object_(object) {
        check(terrace_objects_pin(store, object, &data_, &size_));
    }
    object_pin(object_pin &&other) noexcept
        : store_(std::exchange(other.store_, nullptr)), object_(other.object_), data_(other.data_),
          size_(other.size_) {}
    object_pin &operator=(object_pin &&other) noexcept {
        object_pin taken(std::move(other));
        std::swap(store_, taken.store_);
        std::swap(object_, taken.object_);
        std::swap(data_, taken.data_);
        std::swap(size_, taken.size_);
        return *this;
    }
    object_pin(const object_pin &) = delete;
    object_pin &operator=(const object_pin &) = delete;
    ~object_pin() {
        if (store_ != nullptr) {
            (void)terrace_objects_unpin(store_, object_);
        }
    }

    object_id object() const noexcept { return object_; }
    void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    const terrace_objects *store_;
    object_id object_;
    void *data_ = nullptr;
    std::size_t size_ = 0;
};

/// What a read of many objects found. It keeps its memory for the next one.
class object_batch {
public:
    std::size_t size() const noexcept { return parts_.size(); }

    /// TERRACE_STATUS_OK, or why an object was not read.
    terrace_status status(std::size_t n) const { return parts_.at(n).status; }

    /// The bytes of an object until the next read; terrace::error where it was not read.
    std::string_view operator[](std::size_t n) const {
        const terrace_part &part = parts_.at(n);
        if (part.status != TERRACE_STATUS_OK) {
            throw error(part.status, terrace_status_name(part.status));
        }
        return std::string_view(bytes_).substr(part.offset, part.len);
    }

private:
    friend class objects;

    std::string bytes_;
    std::vector<terrace_part> parts_;
};

/// A store of small objects, found by id. Any thread may use it. It ends, with every object, when
/// this and all locks have ended.
class objects {
public:
    static objects dram(std::size_t bytes, const terrace_objects_options &options =
                                               terrace_objects_options_default()) {
        terrace_objects *made = nullptr;
        check(terrace_objects_dram(bytes, &options, &made));
        return objects(made);
    }

    static objects on_node(std::uint32_t node, std::size_t bytes,
                           const terrace_objects_options &options =
                               terrace_objects_options_default()) {
        terrace_objects *made = nullptr;
        check(terrace_objects_node(node, bytes, &options, &made));
        return objects(made);
    }

    /// In a part of a region that nobody else uses; 0 bytes are all to its end.
    static objects in(const region &below, std::size_t offset = 0, std::size_t bytes = 0,
                      const terrace_objects_options &options = terrace_objects_options_default()) {
        terrace_objects *made = nullptr;
        check(terrace_objects_region(below.get(), offset, bytes, &options, &made));
        return objects(made);
    }

    /// Ends this; terrace::error when the last changes could not be made durable.
    void close() { check(terrace_objects_close(handle_.release())); }

    /// What the store was made of when it was opened.
    terrace_objects_recovered recovered() const {
        terrace_objects_recovered found{};
        check(terrace_objects_get_recovered(get_handle(), &found));
        return found;
    }
    /// What was left out then, a sentence for each.
    std::vector<std::string> damage() const {
        std::vector<std::string> all;
        while (const char *text = terrace_objects_damage(get_handle(), all.size())) {
            all.emplace_back(text);
        }
        return all;
    }

    object_id create(std::string_view bytes) const {
        object_id id = 0;
        check(terrace_objects_create_with(get_handle(), bytes.data(), bytes.size(), &id));
        return id;
    }
    template <typename T> object_id create_value(const T &value) const {
        return create(detail::bytes_of(value));
    }
    object_id create_zeros(std::size_t len) const {
        object_id id = 0;
        check(terrace_objects_create(get_handle(), len, &id));
        return id;
    }
    /// All or none; the first of consecutive ids.
    object_id create_consecutive(const std::vector<std::string_view> &contents) const {
        const std::vector<terrace_bytes> all = detail::bytes_of_all(contents);
        object_id first = 0;
        check(terrace_objects_create_consecutive(get_handle(), all.data(), all.size(), &first));
        return first;
    }

    /// An id without an object, for create_reserved or release.
    object_id reserve() const {
        object_id id = 0;
        check(terrace_objects_reserve(get_handle(), &id));
        return id;
    }
    object_id reserve_consecutive(std::size_t count) const {
        object_id first = 0;
        check(terrace_objects_reserve_consecutive(get_handle(), count, &first));
        return first;
    }
    void release(object_id id) const { check(terrace_objects_release(get_handle(), id)); }
    /// With a reserved id, or one of another node.
    void create_reserved(object_id id, std::string_view bytes) const {
        check(terrace_objects_create_reserved(get_handle(), id, bytes.data(), bytes.size()));
    }

    bool exists(object_id id) const noexcept { return terrace_objects_exists(get_handle(), id); }
    std::size_t size(object_id id) const {
        std::size_t len = 0;
        check(terrace_objects_size(get_handle(), id, &len));
        return len;
    }

    void get(object_id id, std::string &to) const {
        detail::read_all(to, [this, id](void *buffer, std::size_t room, std::size_t *len) {
            return terrace_objects_get(get_handle(), id, buffer, room, len);
        });
    }
    std::string get(object_id id) const {
        std::string bytes;
        get(id, bytes);
        return bytes;
    }
    template <typename T> T get_value(object_id id) const {
        return detail::read_value<T>([this, id](void *buffer, std::size_t room, std::size_t *len) {
            return terrace_objects_get(get_handle(), id, buffer, room, len);
        });
    }
    /// The object's bytes from the offset on.
    void read_at(object_id id, std::size_t offset, void *to, std::size_t len) const {
        check(terrace_objects_read_at(get_handle(), id, offset, to, len));
    }

    /// As many bytes as the object has.
    void put(object_id id, std::string_view bytes) const {
        check(terrace_objects_put(get_handle(), id, bytes.data(), bytes.size()));
    }
    template <typename T> void put_value(object_id id, const T &value) const {
        put(id, detail::bytes_of(value));
    }
    void write_at(object_id id, std::size_t offset, std::string_view bytes) const {
        check(terrace_objects_write_at(get_handle(), id, offset, bytes.data(), bytes.size()));
    }
    /// More bytes than the object has, or fewer.
    void replace(object_id id, std::string_view bytes) const {
        check(terrace_objects_replace(get_handle(), id, bytes.data(), bytes.size()));
    }
    void resize(object_id id, std::size_t len) const {
        check(terrace_objects_resize(get_handle(), id, len));
    }
    void remove(object_id id) const { check(terrace_objects_remove(get_handle(), id)); }

    bool is_read_only(object_id id) const {
        bool read_only = false;
        check(terrace_objects_is_read_only(get_handle(), id, &read_only));
        return read_only;
    }
    void set_read_only(object_id id, bool read_only) const {
        check(terrace_objects_set_read_only(get_handle(), id, read_only));
    }

    object_lock lock(object_id id, terrace_lock_mode mode,
                     std::chrono::milliseconds wait = forever) const {
        terrace_lock *made = nullptr;
        check(terrace_objects_lock(get_handle(), id, mode, detail::timeout(wait), &made));
        return object_lock(made);
    }
    /// None where others keep the caller out for so long.
    std::optional<object_lock>
    try_lock(object_id id, terrace_lock_mode mode,
             std::chrono::milliseconds wait = std::chrono::milliseconds::zero()) const {
        terrace_lock *made = nullptr;
        const terrace_status status =
            terrace_objects_lock(get_handle(), id, mode, detail::timeout(wait), &made);
        if (status == TERRACE_STATUS_TIMEOUT) {
            return std::nullopt;
        }
        check(status);
        return object_lock(made);
    }
    object_pin pin(object_id id) const { return object_pin(get_handle(), id); }

    /// Objects that cannot be read leave the others alone: the batch says of each.
    void get_many(const std::vector<object_id> &ids, object_batch &to) const {
        to.parts_.resize(ids.size());
        std::size_t needed = to.bytes_.size();
        terrace_status status = TERRACE_STATUS_BUFFER;
        while (status == TERRACE_STATUS_BUFFER) {
            to.bytes_.resize(needed);
            status = terrace_objects_get_many(get_handle(), ids.data(), ids.size(),
                                              to.bytes_.data(), to.bytes_.size(),
                                              to.parts_.data(), &needed);
        }
        if (detail::is_of_all(status)) {
            to.parts_.clear();
            check(status);
        }
    }
    /// As many contents as ids; what became of each.
    std::vector<terrace_status> put_many(const std::vector<object_id> &ids,
                                         const std::vector<std::string_view> &contents) const {
        if (ids.size() != contents.size()) {
            throw error(TERRACE_STATUS_INVALID, "as many contents are put as there are ids");
        }
        const std::vector<terrace_bytes> all = detail::bytes_of_all(contents);
        std::vector<terrace_status> statuses(ids.size(), TERRACE_STATUS_OK);
        each(terrace_objects_put_many(get_handle(), ids.data(), all.data(), ids.size(),
                                      statuses.data()));
        return statuses;
    }
    /// What became of each.
    std::vector<terrace_status> remove_many(const std::vector<object_id> &ids) const {
        std::vector<terrace_status> statuses(ids.size(), TERRACE_STATUS_OK);
        each(terrace_objects_remove_many(get_handle(), ids.data(), ids.size(), statuses.data()));
        return statuses;
    }

    /// Shows the ids of all objects behind one, in order.
    template <typename Each> void for_each_id(Each each, object_id after = 0) const {
        object_id ids[512];
        std::size_t count = 0;
        do {
            check(terrace_objects_ids(get_handle(), after, ids, 512, &count));
            for (std::size_t n = 0; n < count; n++) {
                each(ids[n]);
                after = ids[n];
            }
        } while (count == 512);
    }
    std::vector<terrace_id_range> id_ranges() const {
        std::vector<terrace_id_range> all;
        terrace_id_range ranges[64];
        std::size_t count = 0;
        do {
            const object_id after = all.empty() ? 0 : all.back().last;
            check(terrace_objects_id_ranges(get_handle(), after, ranges, 64, &count));
            all.insert(all.end(), ranges, ranges + count);
        } while (count == 64);
        return all;
    }

    /// Writes all objects to a file as they are at one moment.
    void dump(const std::string &path) const {
        check(terrace_objects_dump(get_handle(), path.c_str()));
    }
    void sync() const { check(terrace_objects_sync(get_handle())); }
    void checkpoint() const { check(terrace_objects_checkpoint(get_handle())); }

    terrace_objects_stats stats() const {
        terrace_objects_stats stats;
        check(terrace_objects_get_stats(get_handle(), &stats));
        return stats;
    }
    terrace_objects_checked check_all() const {
        terrace_objects_checked checked;
        check(terrace_objects_check(get_handle(), &checked));
        return checked;
    }
    terrace_objects_defragmented defragment() const {
        terrace_objects_defragmented done;
        check(terrace_objects_defragment(get_handle(), &done));
        return done;
    }

    terrace_objects *get_handle() const noexcept { return handle_.get(); }

private:
    explicit objects(terrace_objects *owned) noexcept : handle_(owned) {}

    static void each(terrace_status status) {
        if (detail::is_of_all(status)) {
            check(status);
        }
    }

    detail::handle<terrace_objects> handle_;
};

} // namespace terrace

#endif // TERRACE_OBJECTS_HPP
